"""Whether an MP3 file knows its length.

libsndfile guesses the length from the first frame, which fails for a variable bit rate without a tag.
"""

from typing import BinaryIO

BITRATES = {  # (MPEG 1, layer) -> kbit/s by index
    (True, 1): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
RATES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
LOOK_FRAMES = 400


def length_is_known(file: BinaryIO) -> bool:
    """True with a length tag, or if the first frames have the same bit rate. Leaves the file at its start."""
    try:
        start = tag_bytes(file)
        file.seek(start)
        first = file.read(4096)
        if b"Xing" in first[:256] or b"Info" in first[:256] or b"VBRI" in first[:256]:
            return True
        return len(bit_rates(file, start)) <= 1
    finally:
        file.seek(0)


def tag_bytes(file: BinaryIO) -> int:
    """The length of an ID3 tag in front, cover picture included."""
    file.seek(0)
    head = file.read(10)
    if len(head) < 10 or head[:3] != b"ID3":
        return 0
    size = head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9]
    return 10 + size + (10 if head[5] & 0x10 else 0)


def bit_rates(file: BinaryIO, position: int) -> set[int]:
    """The different bit rates of the first frames."""
    found: set[int] = set()
    for _ in range(LOOK_FRAMES):
        file.seek(position)
        frame = parse(file.read(4))
        if frame is None:
            break
        found.add(frame[0])
        position += frame[1]
    return found


def parse(head: bytes) -> tuple[int, int] | None:
    """(kbit/s, bytes of the frame) of an MPEG frame header, or None where there is none."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return None
    version, layer, index, rate_index = head[1] >> 3 & 3, 4 - (head[1] >> 1 & 3), head[2] >> 4, head[2] >> 2 & 3
    if version == 1 or layer == 4 or not 1 <= index <= 14 or rate_index == 3:
        return None
    bitrate, rate = BITRATES[version == 3, layer][index - 1], RATES[version][rate_index]
    padding = head[2] >> 1 & 1
    if layer == 1:
        return bitrate, (12_000 * bitrate // rate + padding) * 4
    samples = 72_000 if layer == 3 and version != 3 else 144_000
    return bitrate, samples * bitrate // rate + padding
