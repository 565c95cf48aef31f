// SPDX-License-Identifier: Apache-2.0
#include "sluice/io/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "safetensors_header.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::io {
namespace {

constexpr std::uint64_t longest_safetensors_header = 100'000'000;  // the limit of the format's own library

// The JSON between the length and the data.
std::string_view header_text(std::span<const std::byte> file, const std::filesystem::path& path) {
    if (file.size() < safetensors_json_offset) {
        throw file_error(path, 0, "header length",
                         "the file ends inside it, after " + std::to_string(file.size()) + " bytes");
    }
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof(length));
    if (length > longest_safetensors_header) {
        throw file_error(path, 0, "header length",
                         std::to_string(length) + " is more than " + std::to_string(longest_safetensors_header));
    }
    const std::uint64_t left = file.size() - safetensors_json_offset;
    if (length > left) {
        throw file_error(path, 0, "header length",
                         std::to_string(length) + " reaches past the end: " + std::to_string(left) + " bytes follow");
    }
    const std::byte* text = file.data() + safetensors_json_offset;
    return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(length)};
}

// The tensors, in the order of their bytes, must cover the data without gap or overlap. An empty tensor has no
// bytes of its own, but it too must be where one ends and the next begins.
void check_layout(const std::vector<safetensors_header::tensor>& sorted, std::uint64_t data_bytes,
                  std::uint64_t data_offset, const std::filesystem::path& path) {
    std::uint64_t covered = 0;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        const auto& tensor = sorted[i];
        const std::string field = in_quotes(tensor.name) + ".data_offsets";
        if (tensor.begin < covered) {
            throw file_error(path, tensor.offsets_at, field, "overlaps " + in_quotes(sorted[i - 1].name));
        }
        if (tensor.begin > covered) {
            throw file_error(path, tensor.offsets_at, field,
                             "leaves a hole of " + std::to_string(tensor.begin - covered) + " bytes before it");
        }
        covered = tensor.end;
    }
    if (covered != data_bytes) {
        throw file_error(path, data_offset + covered, "data",
                         std::to_string(data_bytes - covered) + " bytes at the end belong to no tensor");
    }
}

}  // namespace

safetensors_view::safetensors_view(std::span<const std::byte> file, std::filesystem::path label)
    : path_(std::move(label)) {
    const std::string_view json = header_text(file, path_);
    const std::uint64_t data_offset = safetensors_json_offset + json.size();
    const auto data = file.subspan(static_cast<std::size_t>(data_offset));

    auto header = parse_safetensors_header(json, data.size(), path_);
    std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
        return std::tuple(a.begin, a.end, a.offsets_at) < std::tuple(b.begin, b.end, b.offsets_at);
    });
    check_layout(header.tensors, data.size(), data_offset, path_);

    metadata_ = std::move(header.metadata);
    metadata_offset_ = header.metadata_at;
    tensors_.reserve(header.tensors.size());
    for (auto& tensor : header.tensors) {
        index_.emplace(tensor.name, tensors_.size());
        tensors_.push_back({.name = std::move(tensor.name),
                            .type = tensor.type,
                            .shape = std::move(tensor.shape),
                            .offset = data_offset + tensor.begin,
                            .bytes = data.subspan(tensor.begin, tensor.end - tensor.begin)});
    }
}

const tensor_entry* safetensors_view::find(std::string_view name) const noexcept {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace sluice::io
