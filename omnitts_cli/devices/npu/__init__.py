"""An Ascend NPU: the only place that speaks to torch_npu, which is imported when somebody asks for the device."""
