// SPDX-License-Identifier: Apache-2.0
// Reads the inputs and outputs of the onnx package's cases: test_data_set_0/input_0.pb and so on.
#pragma once

#include <onnx.pb.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/text_codes.hpp"

namespace sluice::nn::test_support {

// What a case cannot be used for.
struct refused {
    std::string why;
};

// By ONNX's number.
inline io::dtype type_of(int number) {
    using enum io::dtype;
    switch (number) {
        case 1: return f32;
        case 2: return u8;
        case 3: return i8;
        case 4: return u16;
        case 5: return i16;
        case 6: return i32;
        case 7: return i64;
        case 8: return i64;  // codes of texts
        case 9: return boolean;
        case 10: return f16;
        case 11: return f64;
        case 12: return u32;
        case 13: return u64;
        case 16: return bf16;
        default: throw refused{"data of type " + std::to_string(number)};
    }
}

template <typename To, typename From>
std::string bytes_of(const From& numbers) {
    std::string bytes;
    for (const auto each : numbers) {
        const auto narrow = static_cast<To>(each);
        bytes.append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
    }
    return bytes;
}

// Texts become the codes that the model has for them.
inline any_tensor read_tensor(const std::filesystem::path& path, const text_codes& codes) {
    std::ifstream file(path, std::ios::binary);
    onnx::TensorProto read;
    if (!read.ParseFromIstream(&file)) throw refused{"data that is no tensor"};
    constant made{.type = type_of(read.data_type()), .shape = {}, .bytes = {}};
    for (const auto each : read.dims()) made.shape.push_back(static_cast<std::size_t>(each));
    if (read.data_type() == 8) {
        const std::vector<std::string_view> texts(read.string_data().begin(), read.string_data().end());
        return codes.encode(texts, made.shape);
    }
    std::string bytes;
    if (read.has_raw_data()) {
        bytes = read.raw_data();
    } else if (read.float_data_size() != 0) {
        bytes = bytes_of<float>(read.float_data());
    } else if (read.int64_data_size() != 0) {
        bytes = bytes_of<std::int64_t>(read.int64_data());
    } else if (read.double_data_size() != 0) {
        bytes = bytes_of<double>(read.double_data());
    } else if (read.int32_data_size() != 0) {
        switch (io::size_of(made.type)) {
            case 1: bytes = bytes_of<std::uint8_t>(read.int32_data()); break;
            case 2: bytes = bytes_of<std::uint16_t>(read.int32_data()); break;
            default: bytes = bytes_of<std::int32_t>(read.int32_data());
        }
    }
    made.bytes = std::make_shared<const std::string>(std::move(bytes));
    return any_tensor(std::move(made));
}

inline std::vector<any_tensor> read_all(const std::filesystem::path& folder, const std::string& kind,
                                        const text_codes& codes) {
    std::vector<any_tensor> made;
    while (std::filesystem::exists(folder / (kind + "_" + std::to_string(made.size()) + ".pb")))
        made.push_back(read_tensor(folder / (kind + "_" + std::to_string(made.size()) + ".pb"), codes));
    return made;
}

}  // namespace sluice::nn::test_support
