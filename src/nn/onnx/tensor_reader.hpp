// SPDX-License-Identifier: Apache-2.0
// tensor_reader: tensors of an ONNX file as constants.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "external_data.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/io/dtype.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn::onnx {
class SparseTensorProto;
}

namespace sluice::nn::detail {

// Throws file_error for the file at `path`.
[[noreturn]] void refuse_onnx(const std::filesystem::path& path, std::string_view field, std::string_view why);

// A message with a field that onnx.proto does not have is refused.
template <typename Message>
void require_known(const std::filesystem::path& path, std::string_view field, const Message& message) {
    if (!message.unknown_fields().empty())
        refuse_onnx(path, field, "has a field that is not known: the file is damaged, or of a newer version of ONNX");
}

class tensor_reader {
public:
    tensor_reader(const std::filesystem::path& path, data_links links) : path_(path), external_(path, links) {}

    // The type with this number. Text is the type of its numbers.
    io::dtype type_of(std::string_view field, std::int32_t number) const;
    static bool is_text(std::int32_t type) { return type == 8; }
    // Takes the bytes out of `from`.
    constant read(onnx::TensorProto& from, const std::string& label);
    // With a 0 for each element that `from` does not have.
    constant read(onnx::SparseTensorProto& from, const std::string& label);
    // The text's number: its place in texts().
    std::int64_t number_of(const std::string& text);

    const std::vector<std::string>& texts() const { return texts_; }
    std::vector<std::filesystem::path> data_files() const { return external_.files(); }

private:
    template <typename Narrow, typename Numbers>
    std::string narrowed(const std::string& label, const Numbers& numbers) const;
    std::string numbers_in(const std::string& label, const onnx::TensorProto& from, io::dtype type) const;
    std::string texts_in(const std::string& label, const onnx::TensorProto& from, std::size_t elements);
    [[noreturn]] void refuse(std::string_view field, std::string_view why) const { refuse_onnx(path_, field, why); }

    const std::filesystem::path& path_;
    external_data external_;  // notes the files that it has read
    std::size_t sparse_bytes_ = 0,
                dense_bytes_ = 0;  // of the sparse constants so far: in the file, and as they are kept
    std::vector<std::string> texts_;
    std::map<std::string, std::int64_t, std::less<>> numbers_;  // of the texts
};

}  // namespace sluice::nn::detail
