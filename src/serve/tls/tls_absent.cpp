// SPDX-License-Identifier: Apache-2.0
// Built without TLS: no context is made, and so no session.
#include "serve/tls/tls_context.hpp"
#include "sluice/base/error.hpp"

namespace sluice::serve {
namespace {

[[noreturn]] void refuse() { throw error(errc::unsupported, "this Sluice was built without TLS: " + why_no_tls()); }

}  // namespace

bool tls_supported() noexcept { return false; }
std::string why_no_tls() { return SLUICE_WHY_NO_TLS; }

void tls_session::deleter::operator()(ssl_st*) const noexcept {}
tls_state tls_session::shake_hands() noexcept { return tls_state::broken; }
tls_state tls_session::read(void*, std::size_t, std::size_t&) noexcept { return tls_state::broken; }
bool tls_session::has_pending() const noexcept { return false; }
bool tls_session::may_read_more() const noexcept { return false; }
tls_state tls_session::write(const void*, std::size_t, std::size_t&) noexcept { return tls_state::broken; }
tls_state tls_session::write_soon(std::string_view) { return tls_state::broken; }
tls_state tls_session::end_output() noexcept { return tls_state::done; }

void tls_context::deleter::operator()(ssl_ctx_st*) const noexcept {}
std::shared_ptr<const tls_context> tls_context::of_server(const tls_files&, protocol_of_tls) { refuse(); }
std::shared_ptr<const tls_context> tls_context::of_client(const std::filesystem::path&, const std::filesystem::path&,
                                                          const std::filesystem::path&) {
    refuse();
}
std::unique_ptr<tls_session> tls_context::session(int, const std::string&) const { return nullptr; }

}  // namespace sluice::serve
