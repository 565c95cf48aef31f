// SPDX-License-Identifier: Apache-2.0
#include "serve/http/json_numbers.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/before_rounding.hpp"
#include "serve/text_elements.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
    throw refusal(refusal_kind::bad_request, where + ": " + why);
}

[[noreturn]] void refuse_number(const std::string& where, io::dtype type) {
    refuse(where, "an element of the data is no " + std::string(datatype_of(type)) +
                      (type == io::dtype::boolean ? ": accepted are true and false" : ", or too large for it"));
}

// Once, whatever the number was.
template <typename T, typename From>
T rounded(From value) {
    if constexpr (std::is_floating_point_v<T>)
        return static_cast<T>(value);
    else
        return T(sluice::detail::before_rounding(value));
}

template <typename T>
T floating(element from, io::dtype type, const std::string& where) {
    T value{};
    if (from.type() == element_type::DOUBLE)
        value = rounded<T>(from.get_double().value_unsafe());
    else if (from.type() == element_type::INT64)
        value = rounded<T>(from.get_int64().value_unsafe());
    else if (from.type() == element_type::UINT64)
        value = rounded<T>(from.get_uint64().value_unsafe());
    else
        refuse_number(where, type);
    if (!std::is_same_v<T, double> && std::isinf(static_cast<float>(value))) refuse_number(where, type);
    return value;
}

template <typename T>
T integer(element from, io::dtype type, const std::string& where) {
    using limits = std::numeric_limits<T>;
    if (from.type() == element_type::INT64) {
        const std::int64_t value = from.get_int64().value_unsafe();
        if constexpr (std::is_unsigned_v<T>) {
            if (value >= 0 && static_cast<std::uint64_t>(value) <= limits::max()) return static_cast<T>(value);
        } else {
            if (value >= limits::min() && value <= limits::max()) return static_cast<T>(value);
        }
    } else if (from.type() == element_type::UINT64) {
        const std::uint64_t value = from.get_uint64().value_unsafe();
        if (value <= static_cast<std::uint64_t>(limits::max())) return static_cast<T>(value);
    }
    refuse_number(where, type);
}

template <typename T>
T number(element from, io::dtype type, const std::string& where) {
    if constexpr (std::is_same_v<T, bool>) {
        if (from.type() != element_type::BOOL) refuse_number(where, type);
        return from.get_bool().value_unsafe();
    } else if constexpr (std::is_integral_v<T>) {
        return integer<T>(from, type, where);
    } else {
        return floating<T>(from, type, where);
    }
}

// Read: gives the T of an element.
template <typename T, typename Read>
class appender {
public:
    appender(growing_memory& to, const Read& read, const tensor_shape& shape, const std::string& where,
             std::size_t elements)
        : to_(to), read_(read), shape_(shape), where_(where), elements_(elements) {}

    void run(simdjson::dom::array data) {
        const std::size_t before = to_.size();
        const bool is_nested =
            shape_.rank() > 1 && data.begin() != data.end() && (*data.begin()).type() == element_type::ARRAY;
        if (is_nested)
            nested(data, 0);
        else
            flat(data, elements_);
        const std::size_t found = (to_.size() - before) / sizeof(T);
        if (found != elements_) refuse_count(std::to_string(found));
    }

private:
    [[noreturn]] void refuse_count(const std::string& found) {
        refuse(where_, "the shape " + to_string(shape_) + " has " + std::to_string(elements_) +
                           " elements; the data has " + found);
    }

    void flat(simdjson::dom::array data, std::size_t most) {
        std::size_t count = 0;
        for (const element each : data) {
            if (++count > most) refuse_count("more");
            const T value = read_(each);
            std::memcpy(to_.add(sizeof(T)), &value, sizeof(T));
        }
    }

    void nested(simdjson::dom::array data, std::size_t depth) {
        std::size_t count = 0;
        if (depth + 1 == shape_.rank()) {
            const std::size_t before = to_.size();
            flat(data, shape_[depth]);
            count = (to_.size() - before) / sizeof(T);
        } else {
            for (const element each : data) {
                if (each.type() != element_type::ARRAY) refuse_nesting();
                nested(each.get_array().value_unsafe(), depth + 1);
                ++count;
            }
        }
        if (count != shape_[depth]) refuse_nesting();
    }

    [[noreturn]] void refuse_nesting() {
        refuse(where_, "the data is not nested as the shape " + to_string(shape_) + " is");
    }

    growing_memory& to_;
    const Read& read_;
    const tensor_shape& shape_;
    const std::string& where_;
    std::size_t elements_;
};

}  // namespace

void append_numbers(growing_memory& to, io::dtype type, const tensor_shape& shape, simdjson::dom::array data,
                    const std::string& where) {
    const auto elements = io::element_count(shape.lengths());
    if (!elements || !io::byte_count(shape.lengths(), type))
        refuse(where, "the shape " + to_string(shape) + " is too large");
    const auto append = [&]<typename T>(T) {
        const auto read = [&](element from) { return number<T>(from, type, where); };
        appender<T, decltype(read)>(to, read, shape, where, *elements).run(data);
    };
    switch (type) {
        case io::dtype::f16: return append(half{});
        case io::dtype::bf16: return append(bfloat16{});
        case io::dtype::f32: return append(float{});
        case io::dtype::f64: return append(double{});
        case io::dtype::i8: return append(std::int8_t{});
        case io::dtype::u8: return append(std::uint8_t{});
        case io::dtype::i16: return append(std::int16_t{});
        case io::dtype::u16: return append(std::uint16_t{});
        case io::dtype::i32: return append(std::int32_t{});
        case io::dtype::u32: return append(std::uint32_t{});
        case io::dtype::i64: return append(std::int64_t{});
        case io::dtype::u64: return append(std::uint64_t{});
        case io::dtype::boolean: return append(bool{});
    }
}

void append_codes(growing_memory& to, const tensor_shape& shape, simdjson::dom::array data, const nn::text_codes& codes,
                  const std::string& where) {
    const std::size_t elements = bytes_of_codes(shape, where) / sizeof(std::int64_t);
    const auto read = [&](element from) {
        std::string_view text;
        if (from.get(text) != simdjson::SUCCESS) refuse(where, "an element of the data is not a text");
        return codes.code_of(text);
    };
    appender<std::int64_t, decltype(read)>(to, read, shape, where, elements).run(data);
}

}  // namespace sluice::serve
