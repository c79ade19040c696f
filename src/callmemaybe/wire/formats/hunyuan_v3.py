"""Hunyuan 3 (Hy3): GLM's keys and values in a block of calls; every tag ends with the checkpoint's suffix.

Strings of the template in llama.cpp's models/templates/tencent-Hy3.jinja, whose suffix is ``:opensource``.
"""

from __future__ import annotations

from callmemaybe.wire.formats._hunyuan import hunyuan

FORMAT = hunyuan(
    "hunyuan_v3",
    "Hunyuan 3: <tool_calls:opensource>, keys and values in tags on lines",
    ":opensource",
)
