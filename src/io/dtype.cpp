// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/dtype.hpp"

#include <bit>
#include <cstring>
#include <limits>
#include <string>

#include "sluice/base/error.hpp"

namespace sluice::io {
namespace {

static_assert(std::endian::native == std::endian::little, "stored tensors are little-endian, and are used in place");

bool multiply(std::size_t& product, std::size_t factor) noexcept {
    if (factor != 0 && product > std::numeric_limits<std::size_t>::max() / factor) return false;
    product *= factor;
    return true;
}

// The product of the shape and `element_bytes`, refused when any part of the shape would overflow.
std::optional<std::size_t> product_of(std::span<const std::size_t> shape, std::size_t element_bytes) noexcept {
    std::size_t product = element_bytes;
    bool is_empty = false;
    for (const std::size_t dimension : shape) {
        if (dimension == 0) {
            is_empty = true;
        } else if (!multiply(product, dimension)) {
            return std::nullopt;
        }
    }
    return is_empty ? 0 : product;
}

template <class Stored, class Convert>
void convert_each(std::span<const std::byte> source, std::span<float> target, Convert convert) {
    for (std::size_t i = 0; i < target.size(); ++i) {
        Stored element;
        std::memcpy(&element, source.data() + i * sizeof(Stored), sizeof(Stored));
        target[i] = convert(element);
    }
}

template <class Stored>
void cast_each(std::span<const std::byte> source, std::span<float> target) {
    convert_each<Stored>(source, target, [](Stored element) { return static_cast<float>(element); });
}

constexpr std::uint32_t quiet_bit = 0x0040'0000;

}  // namespace

std::size_t size_of(dtype type) noexcept {
    switch (type) {
        case dtype::i8:
        case dtype::u8:
        case dtype::boolean: return 1;
        case dtype::f16:
        case dtype::bf16:
        case dtype::i16:
        case dtype::u16: return 2;
        case dtype::f32:
        case dtype::i32:
        case dtype::u32: return 4;
        case dtype::f64:
        case dtype::i64:
        case dtype::u64: return 8;
    }
    return 0;
}

std::string_view to_string(dtype type) noexcept {
    switch (type) {
        case dtype::f16: return "f16";
        case dtype::bf16: return "bf16";
        case dtype::f32: return "f32";
        case dtype::f64: return "f64";
        case dtype::i8: return "i8";
        case dtype::u8: return "u8";
        case dtype::i16: return "i16";
        case dtype::u16: return "u16";
        case dtype::i32: return "i32";
        case dtype::u32: return "u32";
        case dtype::i64: return "i64";
        case dtype::u64: return "u64";
        case dtype::boolean: return "bool";
    }
    return "unknown";
}

std::optional<std::size_t> element_count(std::span<const std::size_t> shape) noexcept { return product_of(shape, 1); }

std::optional<std::size_t> byte_count(std::span<const std::size_t> shape, dtype type) noexcept {
    return product_of(shape, size_of(type));
}

float f16_to_float(std::uint16_t bits) noexcept {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1f;
    const std::uint32_t mantissa = bits & 0x3ff;
    if (exponent == 0x1f) {
        const std::uint32_t payload = mantissa == 0 ? 0 : (mantissa << 13) | quiet_bit;
        return std::bit_cast<float>(sign | 0x7f80'0000 | payload);
    }
    if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, which is a normal float
        const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
    }
    return std::bit_cast<float>(sign | ((exponent + 127 - 15) << 23) | (mantissa << 13));
}

float bf16_to_float(std::uint16_t bits) noexcept {
    std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    const bool is_nan = (wide & 0x7fff'ffff) > 0x7f80'0000;
    if (is_nan) wide |= quiet_bit;
    return std::bit_cast<float>(wide);
}

void convert_to_float(dtype type, std::span<const std::byte> source, std::span<float> target) {
    const std::size_t element_bytes = size_of(type);
    if (source.size() % element_bytes != 0 || source.size() / element_bytes != target.size()) {
        throw error(errc::shape_mismatch, std::to_string(source.size()) + " bytes of " + std::string(to_string(type)) +
                                              " are not " + std::to_string(target.size()) + " elements");
    }
    if (target.empty()) return;
    switch (type) {
        case dtype::f16: return convert_each<std::uint16_t>(source, target, f16_to_float);
        case dtype::bf16: return convert_each<std::uint16_t>(source, target, bf16_to_float);
        case dtype::f32: std::memcpy(target.data(), source.data(), source.size()); return;
        case dtype::f64: return cast_each<double>(source, target);
        case dtype::i8: return cast_each<std::int8_t>(source, target);
        case dtype::u8: return cast_each<std::uint8_t>(source, target);
        case dtype::i16: return cast_each<std::int16_t>(source, target);
        case dtype::u16: return cast_each<std::uint16_t>(source, target);
        case dtype::i32: return cast_each<std::int32_t>(source, target);
        case dtype::u32: return cast_each<std::uint32_t>(source, target);
        case dtype::i64: return cast_each<std::int64_t>(source, target);
        case dtype::u64: return cast_each<std::uint64_t>(source, target);
        case dtype::boolean:
            return convert_each<std::uint8_t>(source, target, [](std::uint8_t element) { return element ? 1.f : 0.f; });
    }
}

}  // namespace sluice::io
