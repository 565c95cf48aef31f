// `sluice devices` and `sluice inspect MODEL`: what there is, for people (a table) and for machines (JSON).
#pragma once

#include <filesystem>
#include <iosfwd>

namespace sluice {
class runtime;
}

namespace sluice::app {

void describe_devices(const runtime& machine, bool as_json, std::ostream& out);
// Throws file_error for a file that is not a network.
void describe_model(const std::filesystem::path& model, bool as_json, std::ostream& out);

}  // namespace sluice::app
