#include "sluice/runtime/interpreter.hpp"

#include "sluice/runtime/device.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice {

void stream_interpreter::graph(const command_info& info, const graph_command&) {
    throw error(errc::unsupported, "this device runs no graphs", {info.name, "", info.where});
}

std::unique_ptr<graph_program> device_interpreter::instantiate(device& owner, command_graph) {
    throw error(errc::unsupported, "this device runs no graphs", {"graph", owner.name()});
}

}  // namespace sluice
