// SPDX-License-Identifier: Apache-2.0
// How a timeline looks, as CSS. Every rule is for descendants of .sluice-timeline, so that a picture put into a page
// changes nothing else there. Bars have the same colours in the light and in the dark.
//
// Kernels, library calls and stages are solid, in the colour of their name (n0 to n7), library calls with a dashed
// outline.
// Other kinds are hollow, in the colour of their kind. The eight colours are those of 42 candidates that lie farthest
// apart for readers without and with each kind of colour blindness (distance of at least 20 in CIELAB, colour blindness
// by Machado's matrices). The text on each has a contrast of at least 4.5: white on dark ones, dark on light ones.
#pragma once

#include <string_view>

namespace sluice::detail {

inline constexpr std::string_view timeline_style = R"(<style>
.sluice-timeline text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"DejaVu Sans",sans-serif;font-size:12px;fill:#1f2937}
.sluice-timeline .ground{fill:#ffffff;stroke:#d5dce5}
.sluice-timeline .title{font-size:16px;font-weight:600;fill:#0f172a}
.sluice-timeline .device{font-weight:600;stroke:#ffffff;stroke-width:5px;stroke-linejoin:round;paint-order:stroke}
.sluice-timeline .muted{font-size:11px;fill:#5b6879}
.sluice-timeline .band{fill:#f1f4f8}
.sluice-timeline .grid{stroke:#dde3eb}
.sluice-timeline .axis{stroke:#94a3b8}
.sluice-timeline .name{font-size:11px}
.sluice-timeline .of{fill-opacity:.72}
.sluice-timeline .time .name{transform:scaleX(var(--unscaled,1))}
.sluice-timeline .time .tip{transform-box:fill-box;transform-origin:center;transform:scaleX(var(--unscaled,1))}
.sluice-timeline .time *{vector-effect:non-scaling-stroke}
.sluice-timeline .bar:hover{opacity:.82}
.sluice-timeline .upload{fill:#0b7d72}
.sluice-timeline .download{fill:#b4540a}
.sluice-timeline .device-copy{fill:#6b6f12}
.sluice-timeline .fill{fill:#64748b}
.sluice-timeline .kernel{fill:#2f62d9}
.sluice-timeline .library-call{fill:#7a45cc}
.sluice-timeline .host-call{fill:#b52b6b}
.sluice-timeline .graph{fill:#3f6212}
.sluice-timeline .n0{fill:#009e73;stroke:#111827}
.sluice-timeline .n1{fill:#d6a400;stroke:#111827}
.sluice-timeline .n2{fill:#6d28d9;stroke:#ffffff}
.sluice-timeline .n3{fill:#b91c1c;stroke:#ffffff}
.sluice-timeline .n4{fill:#aa4499;stroke:#ffffff}
.sluice-timeline .n5{fill:#a78bfa;stroke:#111827}
.sluice-timeline .n6{fill:#f472b6;stroke:#111827}
.sluice-timeline .n7{fill:#01665e;stroke:#ffffff}
.sluice-timeline .any{fill:#64748b;stroke:#ffffff}
.sluice-timeline .solid{stroke-width:0}
.sluice-timeline .solid.library-call{stroke-width:1.5;stroke-dasharray:4 3}
.sluice-timeline .bar>.n0~svg .name,.sluice-timeline .bar>.n1~svg .name,.sluice-timeline .bar>.n5~svg .name,.sluice-timeline .bar>.n6~svg .name{fill:#111827}
.sluice-timeline .bar>.n2~svg .name,.sluice-timeline .bar>.n3~svg .name,.sluice-timeline .bar>.n4~svg .name,.sluice-timeline .bar>.n7~svg .name{fill:#ffffff}
.sluice-timeline .hollow{fill-opacity:.18;stroke-width:1.5}
.sluice-timeline .hollow.upload{stroke:#0b7d72}
.sluice-timeline .hollow.download{stroke:#b4540a}
.sluice-timeline .hollow.device-copy{stroke:#6b6f12}
.sluice-timeline .hollow.fill{stroke:#64748b}
.sluice-timeline .hollow.host-call{stroke:#b52b6b}
.sluice-timeline .hollow.graph{stroke:#3f6212}
.sluice-timeline .thin{shape-rendering:crispEdges;stroke:none}
.sluice-timeline.scripted .thin{shape-rendering:auto}
.sluice-timeline.scripted{cursor:grab;touch-action:pan-y}
.sluice-timeline.scripted:focus{outline:none}
.sluice-timeline .wait{fill:none;stroke:#0f172a;stroke-width:1.3}
.sluice-timeline .tip{fill:#0f172a}
.sluice-timeline .halo{fill:none;stroke:#ffffff;stroke-opacity:.85;stroke-width:4}
.sluice-timeline .many{opacity:.4}
@media (prefers-color-scheme:dark){
.sluice-timeline text{fill:#d6dde8}
.sluice-timeline .ground{fill:#10161f;stroke:#2b3543}
.sluice-timeline .title{fill:#f1f5f9}
.sluice-timeline .device{stroke:#10161f}
.sluice-timeline .muted{fill:#93a1b5}
.sluice-timeline .band{fill:#19212d}
.sluice-timeline .grid{stroke:#273140}
.sluice-timeline .axis{stroke:#566377}
.sluice-timeline .wait{stroke:#f1f5f9}
.sluice-timeline .tip{fill:#f1f5f9}
.sluice-timeline .halo{stroke:#10161f}
}
</style>
)";

}  // namespace sluice::detail
