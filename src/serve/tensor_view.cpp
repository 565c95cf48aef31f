// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/tensor_view.hpp"

#include <utility>

namespace sluice::serve {
namespace {

constexpr std::array<std::pair<std::string_view, io::dtype>, 13> names{{
    {"BOOL", io::dtype::boolean},
    {"UINT8", io::dtype::u8},
    {"UINT16", io::dtype::u16},
    {"UINT32", io::dtype::u32},
    {"UINT64", io::dtype::u64},
    {"INT8", io::dtype::i8},
    {"INT16", io::dtype::i16},
    {"INT32", io::dtype::i32},
    {"INT64", io::dtype::i64},
    {"FP16", io::dtype::f16},
    {"BF16", io::dtype::bf16},
    {"FP32", io::dtype::f32},
    {"FP64", io::dtype::f64},
}};

}  // namespace

std::string to_string(const tensor_shape& shape) {
    std::string text = "[";
    for (const std::size_t each : shape.lengths()) text += (text.size() > 1 ? ", " : "") + std::to_string(each);
    return text + "]";
}

std::string_view datatype_of(io::dtype type) noexcept {
    for (const auto& [name, each] : names)
        if (each == type) return name;
    return {};
}

std::optional<io::dtype> dtype_of_datatype(std::string_view name) noexcept {
    for (const auto& [known, type] : names)
        if (known == name) return type;
    return std::nullopt;
}

std::string known_datatypes() {
    std::string all;
    for (const auto& [name, type] : names) all += (all.empty() ? "" : ", ") + std::string(name);
    return all;
}

}  // namespace sluice::serve
