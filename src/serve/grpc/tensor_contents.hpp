// SPDX-License-Identifier: Apache-2.0
// The InferTensorContents of one input: its elements, each in the field of its datatype. All throw refusal
// (bad_request).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "serve/charged_memory.hpp"
#include "serve/grpc/wire_reader.hpp"
#include "sluice/io/dtype.hpp"
#include "sluice/nn/text_codes.hpp"
#include "sluice/serve/request_budget.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve {

class contents_reader {
public:
    // `tensor`: the message of the input, from its beginning. It may have contents more than once; then all elements
    // count, as protobuf has it.
    explicit contents_reader(wire_reader tensor) noexcept : tensor_(tensor) {}

    // Counts the elements of one InferTensorContents, and looks whether they are whole.
    void add(wire_reader contents);

    bool is_empty() const noexcept;
    // Which fields have elements: "fp32_contents, int_contents".
    std::string filled_fields() const;

    // The elements as a tensor has them: in the message where they lie there like that, else in `to`. Also throws
    // refusal (unavailable), where the memory for requests is in use. `where` gives "input 'x'"; it is called for a
    // refusal only.
    template <typename Where>
    std::span<const std::byte> read(io::dtype type, charged_memory& to, const std::shared_ptr<request_budget>& budget,
                                    const Where& where) const {
        if (const char* const wrong = why_wrong(type)) refuse(type, wrong, where());
        std::int64_t beyond = 0;
        bool is_beyond = false;
        const std::span<const std::byte> bytes = read_whole(type, to, budget, beyond, is_beyond);
        if (is_beyond) refuse_beyond(type, beyond, where());
        return bytes;
    }

    // How many texts there are.
    std::size_t texts() const noexcept { return parts_[text_field].count; }
    // Writes the codes of the texts to `to`, which has room for as many as the shape has.
    void write_codes(std::span<std::byte> to, const nn::text_codes& codes, const tensor_shape& shape,
                     const std::string& where) const;

private:
    static constexpr std::size_t text_field = 8;
    static constexpr std::size_t fields = 9;  // by their numbers, from 1

    struct part {
        std::size_t count = 0;              // of elements
        std::size_t chunks = 0;             // in the message
        std::span<const std::byte> packed;  // the last chunk
    };

    const char* why_wrong(io::dtype type) const;
    [[noreturn]] void refuse(io::dtype type, const char* field, const std::string& where) const;
    [[noreturn]] static void refuse_beyond(io::dtype type, std::int64_t element, const std::string& where);
    std::span<const std::byte> read_whole(io::dtype type, charged_memory& to,
                                          const std::shared_ptr<request_budget>& budget, std::int64_t& beyond,
                                          bool& is_beyond) const;
    template <typename Take>
    void each_chunk(std::uint32_t number, const Take& take) const;

    wire_reader tensor_;
    std::array<part, fields> parts_{};
};

}  // namespace sluice::serve
