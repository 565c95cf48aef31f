// SPDX-License-Identifier: Apache-2.0
// Built without gRPC.
#include "sluice/base/error.hpp"
#include "sluice/serve/grpc_front.hpp"

namespace sluice::serve {

class grpc_front::implementation {};

bool grpc_supported() noexcept { return false; }
std::string why_no_grpc() { return SLUICE_WHY_NO_GRPC; }

grpc_front::grpc_front(server&, const grpc_options&, log_sink) {
    throw error(errc::unsupported, "this Sluice was built without gRPC: " + why_no_grpc());
}
grpc_front::~grpc_front() = default;
unsigned short grpc_front::port() const noexcept { return 0; }
std::string grpc_front::metrics() const { return {}; }
std::size_t grpc_front::drain(std::chrono::milliseconds) { return 0; }

}  // namespace sluice::serve
