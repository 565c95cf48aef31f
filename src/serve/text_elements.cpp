// SPDX-License-Identifier: Apache-2.0
#include "serve/text_elements.hpp"

#include "serve/request_checks.hpp"
#include "sluice/serve/engine.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

constexpr std::string_view datatype_of_texts = "BYTES";

// A code is 8 bytes, and may stand for a long text.
constexpr std::size_t most_text_bytes = std::size_t{256} << 20;

template <typename Take>
void each_code(const tensor_view& from, const Take& take) {
    for (std::size_t at = 0; at < from.bytes.size(); at += sizeof(std::int64_t)) {
        std::int64_t code = 0;
        std::memcpy(&code, from.bytes.data() + at, sizeof(code));
        take(code);
    }
}

std::string elements_of(const nn::text_codes& codes, const tensor_view& from) {
    std::size_t bytes = 0;
    each_code(from, [&](std::int64_t code) { bytes += sizeof(std::uint32_t) + codes.text_of(code).size(); });
    if (bytes > most_text_bytes) {
        refuse_request("the texts of the answer have " + std::to_string(bytes) + " bytes; an output has at most " +
                       std::to_string(most_text_bytes) + ": ask for fewer rows");
    }
    std::string made;
    made.reserve(bytes);
    each_code(from, [&](std::int64_t code) {
        const std::string_view text = codes.text_of(code);
        const auto length = static_cast<std::uint32_t>(text.size());
        made.append(reinterpret_cast<const char*>(&length), sizeof(length));
        made += text;
    });
    return made;
}

}  // namespace

std::string_view datatype_of(const nn::value_info& value) noexcept {
    return value.is_text ? datatype_of_texts : datatype_of(value.type);
}

io::dtype require_datatype_of(const nn::value_info& input, std::string_view datatype, const std::string& where) {
    if (!input.is_text) return require_datatype(datatype, where);
    if (datatype != datatype_of_texts) {
        refuse_request(where + ": the datatype is " + std::string(datatype) + "; the model takes " +
                       std::string(datatype_of_texts));
    }
    return input.type;
}

std::size_t bytes_of_codes(const tensor_shape& shape, const std::string& where) {
    const auto bytes = io::byte_count(shape.lengths(), io::dtype::i64);
    if (!bytes) refuse_request(where + ": the shape " + to_string(shape) + " is too large");
    return *bytes;
}

void write_codes(std::span<std::byte> to, std::span<const std::byte> elements, const nn::text_codes& codes,
                 const tensor_shape& shape, const std::string& where) {
    const std::size_t count = to.size() / sizeof(std::int64_t);
    std::size_t found = 0;
    while (!elements.empty()) {
        std::uint32_t length = 0;
        if (elements.size() >= sizeof(length)) std::memcpy(&length, elements.data(), sizeof(length));
        if (elements.size() < sizeof(length) || length > elements.size() - sizeof(length))
            refuse_request(where + ": the element " + std::to_string(found) + " is cut off");
        if (found == count) break;
        const auto text = elements.subspan(sizeof(length), length);
        const std::int64_t code = codes.code_of({reinterpret_cast<const char*>(text.data()), text.size()});
        std::memcpy(to.data() + found * sizeof(code), &code, sizeof(code));
        elements = elements.subspan(sizeof(length) + length);
        ++found;
    }
    if (found != count || !elements.empty()) {
        refuse_request(where + ": the shape " + to_string(shape) + " has " + std::to_string(count) +
                       " elements; the data has " + (elements.empty() ? std::to_string(found) : "more"));
    }
}

void protocol_outputs::write_texts(const loaded_model& network, std::size_t output) {
    if (!network.outputs()[output].is_text) return;
    if (views_.empty()) {
        views_.assign(outputs_.begin(), outputs_.end());
        elements_.resize(views_.size());
    }
    elements_[output] = elements_of(network.texts(), outputs_[output]);
    views_[output].bytes = std::as_bytes(std::span(elements_[output]));
    outputs_ = views_;
}

}  // namespace sluice::serve
