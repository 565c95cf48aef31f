// SPDX-License-Identifier: Apache-2.0
// What the picture of a graph looks like beyond timeline_style, whose colours of kinds and text it shares. Arrows have
// the colour of their reason, a lighter one in the dark.
#pragma once

#include <string_view>

namespace sluice::detail {

inline constexpr std::string_view drawing_style = R"(<style>
.sluice-graph .box text{fill:#ffffff}
.sluice-graph .box .user{font-weight:600}
.sluice-graph .box .what{font-size:11px;fill-opacity:.85}
.sluice-graph .part>rect{fill:#f1f4f8;stroke:#94a3b8}
.sluice-graph .part>text{fill:#1f2937}
.sluice-graph .arrow,.sluice-graph .words{color:#475569}
.sluice-graph .write-after-read{color:#c2410c}
.sluice-graph .write-after-write{color:#be185d}
.sluice-graph .line{fill:none;stroke:currentColor;stroke-width:1.4}
.sluice-graph .early .line{stroke-dasharray:5 4}
.sluice-graph .head{fill:currentColor}
.sluice-graph .words text{font-size:11px;fill:currentColor}
.sluice-graph .plate{fill:#ffffff}
.sluice-graph .part .plate{fill:#f1f4f8}
.sluice-graph .arrow:hover .line{stroke-width:2.6}
@media (prefers-color-scheme:dark){
.sluice-graph .part>rect{fill:#19212d;stroke:#566377}
.sluice-graph .box text{fill:#ffffff}
.sluice-graph .part>text{fill:#d6dde8}
.sluice-graph .arrow,.sluice-graph .words{color:#93a1b5}
.sluice-graph .write-after-read{color:#fb923c}
.sluice-graph .write-after-write{color:#f472b6}
.sluice-graph .words text{fill:currentColor}
.sluice-graph .plate{fill:#10161f}
.sluice-graph .part .plate{fill:#19212d}
}
</style>
)";

}  // namespace sluice::detail
