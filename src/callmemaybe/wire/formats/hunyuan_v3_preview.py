"""Hunyuan 3 preview: as Hunyuan 3, but without a suffix in its tags.

vLLM's tests of its parser ``hy_v3`` have its outputs (``tencent/Hy3-preview``).
"""

from __future__ import annotations

from callmemaybe.wire.formats._hunyuan import hunyuan

FORMAT = hunyuan(
    "hunyuan_v3_preview", "Hunyuan 3 preview: <tool_calls>, keys and values in tags on lines", ""
)
