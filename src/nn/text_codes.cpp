// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/text_codes.hpp"

#include <cstring>
#include <utility>

#include "sluice/base/error.hpp"

namespace sluice::nn {

text_codes::text_codes(std::span<const std::string> known) : texts_(known.begin(), known.end()) {
    for (std::size_t i = 0; i < texts_.size(); ++i) codes_.emplace(texts_[i], static_cast<std::int64_t>(i));
}

// The texts stay where they are when a vector is moved, so that the map's views stay valid.
text_codes& text_codes::operator=(text_codes other) noexcept {
    std::swap(texts_, other.texts_);
    std::swap(codes_, other.codes_);
    return *this;
}

std::int64_t text_codes::code_of(std::string_view text) const {
    const auto found = codes_.find(text);
    return found == codes_.end() ? -1 : found->second;
}

std::string_view text_codes::text_of(std::int64_t code) const {
    if (code < 0 || static_cast<std::size_t>(code) >= texts_.size()) {
        throw error(errc::out_of_range, "the code " + std::to_string(code) + " is not a text's; there are " +
                                            std::to_string(texts_.size()) + " texts");
    }
    return texts_[static_cast<std::size_t>(code)];
}

any_tensor text_codes::encode(std::span<const std::string_view> texts, std::vector<std::size_t> shape) const {
    std::vector<std::int64_t> made;
    made.reserve(texts.size());
    for (const std::string_view each : texts) made.push_back(code_of(each));
    return any_tensor(made, std::move(shape));
}

std::vector<std::string_view> text_codes::decode(const any_tensor& codes) const {
    if (!codes || !codes.is_on_host() || codes.type() != io::dtype::i64)
        throw error(errc::invalid_argument, "codes of texts are an i64 tensor in host memory");
    std::vector<std::string_view> made;
    made.reserve(codes.elements());
    const std::byte* from = codes.bytes().data();
    for (std::size_t i = 0; i < codes.elements(); ++i) {
        std::int64_t code = 0;
        std::memcpy(&code, from + i * sizeof(code), sizeof(code));
        made.push_back(text_of(code));
    }
    return made;
}

}  // namespace sluice::nn
