// How a timeline looks, as CSS. Every rule is for descendants of .sluice-timeline, so that a picture put into a page
// changes nothing else there. Bars have the same colours in the light and in the dark: white names are readable on
// each (contrast of at least 4.5), and neighbouring hues differ in lightness too.
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
.sluice-timeline .name{font-size:11px;fill:#ffffff}
.sluice-timeline .of{fill:#ffffff;fill-opacity:.72}
.sluice-timeline .thin{shape-rendering:crispEdges}
.sluice-timeline .bar:hover{opacity:.82}
.sluice-timeline .upload{fill:#0b7d72}
.sluice-timeline .download{fill:#b4540a}
.sluice-timeline .device-copy{fill:#6b6f12}
.sluice-timeline .fill{fill:#64748b}
.sluice-timeline .kernel{fill:#2f62d9}
.sluice-timeline .library-call{fill:#7a45cc}
.sluice-timeline .host-call{fill:#b52b6b}
.sluice-timeline .graph{fill:#3f6212}
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
.sluice-timeline .name,.sluice-timeline .of{fill:#ffffff}
.sluice-timeline .wait{stroke:#f1f5f9}
.sluice-timeline .tip{fill:#f1f5f9}
.sluice-timeline .halo{stroke:#10161f}
}
</style>
)";

}  // namespace sluice::detail
