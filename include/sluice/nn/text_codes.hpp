// SPDX-License-Identifier: Apache-2.0
// text_codes: inputs and outputs of a network that are texts, such as categories and labels.
//
//     const nn::model from = nn::load_onnx("titanic.onnx");   // its input "sex" is text: value_info::is_text
//     const nn::text_codes codes(from.texts);
//     nn::any_tensor sex = codes.encode(std::vector<std::string_view>{"female", "male"}, {2, 1});
//     ...
//     for (std::string_view each : codes.decode(labels)) std::cout << each << '\n';
//
// A network computes with codes, i64: the place of a text among those that the network knows, -1 for any other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sluice/nn/any_tensor.hpp"

namespace sluice::nn {

class text_codes {
public:
    text_codes() = default;  // no text is known
    // `known` are a model's texts, in its order. Keeps copies. Costs O(bytes).
    explicit text_codes(std::span<const std::string> known);
    text_codes(const text_codes& other) : text_codes(other.texts_) {}
    text_codes(text_codes&&) = default;
    text_codes& operator=(text_codes other) noexcept;  // takes over what `other` has
    ~text_codes() = default;

    std::size_t size() const noexcept { return texts_.size(); }  // of the texts that are known
    // The text's code; -1 for one that the network does not know. Costs O(bytes).
    std::int64_t code_of(std::string_view text) const;
    // The text with this code, valid as long as this object. Throws errc::out_of_range if there is none.
    std::string_view text_of(std::int64_t code) const;

    // The codes of these texts, row-major, in host memory. Throws errc::shape_mismatch if they do not fit the shape.
    any_tensor encode(std::span<const std::string_view> texts, std::vector<std::size_t> shape) const;
    // The texts of the codes in an i64 tensor in host memory, row-major. Throws errc::invalid_argument for another
    // tensor, errc::out_of_range for a code that is not a text's.
    std::vector<std::string_view> decode(const any_tensor& codes) const;

private:
    std::vector<std::string> texts_;
    std::unordered_map<std::string_view, std::int64_t> codes_;  // into texts_
};

}  // namespace sluice::nn
