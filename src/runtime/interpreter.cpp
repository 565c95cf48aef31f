// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/interpreter.hpp"

#include "sluice/base/error.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice {

void stream_interpreter::graph(const command_info& info, const graph_command&) {
    throw error(errc::unsupported, "this device cannot run graphs", {info.name, "", info.location});
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): those that override it keep the graph
std::unique_ptr<graph_program> device_interpreter::instantiate(device& owner, command_graph) {
    throw error(errc::unsupported, "this device cannot run graphs", {"graph", owner.name()});
}

}  // namespace sluice
