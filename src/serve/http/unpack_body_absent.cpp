// SPDX-License-Identifier: Apache-2.0
// Built without zlib.
#include <boost/beast/core/string.hpp>

#include "serve/http/unpack_body.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {

content_coding content_coding_of(std::string_view value) noexcept {
    return boost::beast::iequals(boost::beast::string_view(value.data(), value.size()), "identity")
               ? content_coding::identity
               : content_coding::other;
}
std::string known_content_codings() { return "none: this server was built without zlib"; }
bool can_unpack(content_coding coding) noexcept { return coding == content_coding::identity; }

struct body_unpacker::implementation {};

body_unpacker::body_unpacker(std::string_view, content_coding, std::size_t most,
                             std::function<void(std::size_t)> charge)
    : most_(most), charge_(std::move(charge)) {}
body_unpacker::~body_unpacker() = default;

bool body_unpacker::step() { throw refusal(refusal_kind::bad_request, "this server was built without zlib"); }

}  // namespace sluice::serve
