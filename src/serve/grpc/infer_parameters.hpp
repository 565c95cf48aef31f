// SPDX-License-Identifier: Apache-2.0
// Parameters in an infer request: entries of map<string, InferParameter>. All functions throw refusal (bad_request).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "serve/grpc/wire_reader.hpp"
#include "serve/shared_tensors.hpp"

namespace sluice::serve {

// The texts are in the message.
struct named_parameter {
    enum class kind : unsigned char { none, boolean, int64, text, fp64, uint64 };

    std::string_view key;
    kind is = kind::none;
    std::uint64_t number = 0;  // of a boolean, int64 or uint64; of FP64 its bits
    std::string_view text;

    // 0, false or an empty text: what clients send for a parameter that is not used.
    bool says_nothing() const noexcept { return number == 0 && text.empty(); }
};

named_parameter read_parameter(wire_reader entry);

// An integer of at least 0.
std::uint64_t require_count(const named_parameter& from);
bool require_flag(const named_parameter& from);

// Where a tensor is in shared memory, as the parameters that were read say it.
class region_fields {
public:
    // Of a key that is there twice the last one holds, as protobuf has it.
    void add(const named_parameter& its);

    // `where` gives "input 'x'"; it is called for a refusal only.
    template <typename Where>
    region_parameters read(const Where& where) const {
        if (unknown_) refuse_unknown(where());
        return read_known();
    }

private:
    [[noreturn]] void refuse_unknown(const std::string& where) const;
    region_parameters read_known() const;

    std::optional<named_parameter> region_, bytes_, offset_, unknown_;
};

}  // namespace sluice::serve
