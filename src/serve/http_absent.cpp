// SPDX-License-Identifier: Apache-2.0
// Built without HTTP.
#include "sluice/base/error.hpp"
#include "sluice/serve/client.hpp"
#include "sluice/serve/http_front.hpp"

namespace sluice::serve {

class http_front::implementation {};

bool http_supported() noexcept { return false; }
std::string why_no_http() { return SLUICE_WHY_NO_HTTP; }

namespace {
[[noreturn]] void refuse() { throw error(errc::unsupported, "this Sluice was built without HTTP: " + why_no_http()); }
}  // namespace

http_port::http_port(const http_options&) { refuse(); }
http_port::http_port(http_port&&) noexcept {}
http_port& http_port::operator=(http_port&&) noexcept { return *this; }
http_port::~http_port() = default;

http_front::http_front(server&, const http_options&, log_sink) { refuse(); }
http_front::http_front(server&, http_port, const http_options&, log_sink) { refuse(); }
http_front::~http_front() = default;
unsigned short http_front::port() const noexcept { return 0; }
std::size_t http_front::drain(std::chrono::milliseconds) { return 0; }

class client::implementation {};
client::client(std::string_view, client_options) { refuse(); }
client::~client() = default;
task<infer_answer> client::infer(infer_request) { refuse(); }
task<bool> client::is_ready(std::chrono::milliseconds) { refuse(); }
const nn::any_tensor& infer_answer::at(std::string_view) const { refuse(); }

}  // namespace sluice::serve
