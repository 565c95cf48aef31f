// SPDX-License-Identifier: Apache-2.0
// Tensors of texts (BYTES) at the edge of the server. As the protocol has them, each element is its length, 4 bytes,
// and its bytes. A model computes with codes (nn::text_codes), so inputs become codes before they reach it, and codes
// become texts where an answer is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/nn/model.hpp"
#include "sluice/nn/text_codes.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve {

class loaded_model;

// The protocol's name of the type: BYTES of a text.
std::string_view datatype_of(const nn::value_info& value) noexcept;

// The type in which the model takes the input. Throws refusal (bad_request) for a datatype that is not known, and for
// texts where the model takes numbers or the reverse. `where` names the tensor.
io::dtype require_datatype_of(const nn::value_info& input, std::string_view datatype, const std::string& where);

// Writes the codes of the elements to `to`, which has room for as many as the shape has. Throws refusal (bad_request)
// for elements that are cut off, and for another number of them.
void write_codes(std::span<std::byte> to, std::span<const std::byte> elements, const nn::text_codes& codes,
                 const tensor_shape& shape, const std::string& where);
// The bytes of the codes of a tensor. Throws refusal (bad_request) for a shape that is too large.
std::size_t bytes_of_codes(const tensor_shape& shape, const std::string& where);

// The outputs of an answer, where texts are elements as the protocol has them. Valid as long as `outputs` and this.
class protocol_outputs {
public:
    // `chosen`: in the request's order, what it asks for, each with the `index` of an output. Throws refusal
    // (bad_request) for more than 256 MiB of texts.
    template <typename Chosen>
    protocol_outputs(const loaded_model& network, std::span<const tensor_view> outputs, const Chosen& chosen)
        : outputs_(outputs) {
        for (const auto& each : chosen) write_texts(network, each.index);
    }
    protocol_outputs(const protocol_outputs&) = delete;  // its views are into it
    protocol_outputs& operator=(const protocol_outputs&) = delete;
    ~protocol_outputs() = default;

    const tensor_view& operator[](std::size_t output) const noexcept { return outputs_[output]; }

private:
    void write_texts(const loaded_model& network, std::size_t output);

    std::span<const tensor_view> outputs_;
    std::vector<tensor_view> views_;     // empty: no output is text
    std::vector<std::string> elements_;  // of the texts
};

// Calls take(text) for each element, which are whole.
template <typename Take>
void each_text(std::span<const std::byte> elements, const Take& take) {
    while (!elements.empty()) {
        std::uint32_t length = 0;
        std::memcpy(&length, elements.data(), sizeof(length));
        const auto text = elements.subspan(sizeof(length), length);
        take(std::string_view(reinterpret_cast<const char*>(text.data()), text.size()));
        elements = elements.subspan(sizeof(length) + length);
    }
}

}  // namespace sluice::serve
