"""An Ascend NPU: the only code that uses torch_npu, which is imported when the device is requested."""

PACKAGE = "torch_npu"
