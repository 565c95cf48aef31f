// SPDX-License-Identifier: Apache-2.0
// Built without zlib.
#include <strings.h>

#include "serve/unpack_body.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {

content_coding content_coding_of(std::string_view value) noexcept {
    constexpr std::string_view none = "identity";
    const bool is_none = value.size() == none.size() && ::strncasecmp(value.data(), none.data(), none.size()) == 0;
    return is_none ? content_coding::identity : content_coding::other;
}
std::string known_content_codings() { return "none: this server was built without zlib"; }
bool can_unpack(content_coding coding) noexcept { return coding == content_coding::identity; }

struct body_unpacker::implementation {};

body_unpacker::body_unpacker(std::string_view, content_coding, std::size_t most,
                             std::function<void(std::size_t)> charge, const char* called)
    : most_(most), charge_(std::move(charge)), called_(called) {}
body_unpacker::~body_unpacker() = default;

bool body_unpacker::step() { throw refusal(refusal_kind::bad_request, "this server was built without zlib"); }

}  // namespace sluice::serve
