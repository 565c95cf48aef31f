// SPDX-License-Identifier: Apache-2.0
// Bodies of requests that are compressed (Content-Encoding: gzip, deflate).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace sluice::serve {

enum class content_coding : unsigned char { identity, gzip, deflate, other };

// That of a field's value. A list of several is `other`.
content_coding content_coding_of(std::string_view value) noexcept;
// "gzip and deflate", or why there are none.
std::string known_content_codings();
bool can_unpack(content_coding coding) noexcept;

// What the body has become, of at most `most` bytes. Calls charge(bytes) before it takes that many bytes more. Throws
// refusal: too_large for a body that would become longer, bad_request for one that is damaged or does not end with
// its last byte.
std::string unpacked(std::string_view body, content_coding coding, std::size_t most,
                     const std::function<void(std::size_t)>& charge);

}  // namespace sluice::serve
