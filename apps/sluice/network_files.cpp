// SPDX-License-Identifier: Apache-2.0
#include "network_files.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "run_inputs.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/npy.hpp"

namespace sluice::app {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw error(errc::invalid_argument, why); }

template <typename T>
T element_at(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

// A difference is not rounded to none.
float difference_of(long double left, long double right) {
    if (left == right) return 0;  // infinities too
    const auto made = static_cast<float>(std::abs(left - right));
    return made == 0 ? std::numeric_limits<float>::denorm_min() : made;
}

}  // namespace

long double number_at(const std::byte* from, io::dtype type) {
    switch (type) {
        case io::dtype::f16: return io::f16_to_float(element_at<std::uint16_t>(from));
        case io::dtype::bf16: return io::bf16_to_float(element_at<std::uint16_t>(from));
        case io::dtype::f32: return element_at<float>(from);
        case io::dtype::f64: return element_at<double>(from);
        case io::dtype::i8: return element_at<std::int8_t>(from);
        case io::dtype::u8: return element_at<std::uint8_t>(from);
        case io::dtype::i16: return element_at<std::int16_t>(from);
        case io::dtype::u16: return element_at<std::uint16_t>(from);
        case io::dtype::i32: return element_at<std::int32_t>(from);
        case io::dtype::u32: return element_at<std::uint32_t>(from);
        case io::dtype::i64: return element_at<std::int64_t>(from);
        case io::dtype::u64: return element_at<std::uint64_t>(from);
        case io::dtype::boolean: return element_at<std::uint8_t>(from) != 0 ? 1 : 0;
    }
    return std::numeric_limits<long double>::quiet_NaN();
}

std::string names_of(const std::vector<nn::value_info>& values) {
    std::string text;
    for (const nn::value_info& each : values) text += (text.empty() ? "" : ", ") + in_quotes(each.name);
    return text;
}

named_paths files_by_name(const std::vector<std::string>& words, const std::vector<nn::value_info>& values,
                          const std::string& option) {
    named_paths made;
    for (const std::string& word : words) {
        const std::size_t at = word.find('=');
        if (at == std::string::npos && values.size() != 1)
            refuse(option + " " + in_quotes(word) + ": write NAME=FILE, with one of the names " + names_of(values));
        const std::string name = at == std::string::npos ? values.front().name : word.substr(0, at);
        const std::string file = at == std::string::npos ? word : word.substr(at + 1);
        if (file.empty()) refuse(option + ": the name of the file is empty");
        if (std::ranges::none_of(values, [&](const nn::value_info& each) { return each.name == name; }))
            refuse(option + ": the network has no " + in_quotes(name) + "; it has " + names_of(values));
        if (!made.emplace(name, file).second) refuse(option + ": " + in_quotes(name) + " is named twice");
    }
    return made;
}

float largest_difference(const nn::any_tensor& answer, const std::filesystem::path& path) {
    const io::npy_file file(path);
    const io::npy_view& view = file.view();
    if (view.shape() != answer.shape()) {
        throw file_error(path, file_error::no_offset, "shape",
                         "is " + nn::to_string(std::span(view.shape())) + "; the output is " +
                             nn::to_string(std::span(answer.shape())));
    }
    const std::size_t size = io::size_of(answer.type()), expected_size = io::size_of(view.element_type());
    float largest = 0;
    for (std::size_t i = 0; i < answer.elements(); ++i) {
        const long double given = number_at(answer.bytes().data() + i * size, answer.type());
        const long double expected = number_at(view.data().data() + i * expected_size, view.element_type());
        largest = larger_difference(largest, difference_of(given, expected));
    }
    file.file().require_unchanged();
    return largest;
}

}  // namespace sluice::app
