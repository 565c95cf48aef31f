#include "sluice/runtime/scheduling_policy.hpp"

#include "sluice/runtime/error.hpp"

namespace sluice {

round_robin::round_robin(device& on, std::size_t streams, const stream_options& options) {
    if (streams == 0) throw error(errc::invalid_argument, "round_robin needs at least one stream", {"", on.name()});
    streams_.reserve(streams);
    for (std::size_t i = 0; i < streams; ++i) streams_.emplace_back(on, options);
}

}  // namespace sluice
