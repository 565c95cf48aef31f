// SPDX-License-Identifier: Apache-2.0
#include "external_data.hpp"

#include <onnx.pb.h>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::nn::detail {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& model, const std::string& label, std::string_view why) {
    throw file_error(model, file_error::no_offset, label, why);
}

std::map<std::string, std::string> entries_of(const std::filesystem::path& model, const std::string& label,
                                              const onnx::TensorProto& tensor) {
    std::map<std::string, std::string> entries;
    for (const onnx::StringStringEntryProto& each : tensor.external_data()) {
        const std::string& key = each.key();
        if (key != "location" && key != "offset" && key != "length" && key != "checksum")
            refuse(model, label, "external_data has the key " + in_quotes(key) + ", which is not known");
        if (!entries.emplace(key, each.value()).second)
            refuse(model, label, "external_data has the key " + in_quotes(key) + " twice");
    }
    return entries;
}

std::size_t number(const std::filesystem::path& model, const std::string& label, std::string_view key,
                   const std::string& text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
        refuse(model, label, "external_data's " + std::string(key) + " is not a number: " + in_quotes(text));
    return std::size_t(value);
}

// Whether the name itself stays in its folder.
bool is_inside(const std::filesystem::path& location) {
    return location.is_relative() && *location.lexically_normal().begin() != "..";
}

// Where the data is, after links are followed.
std::filesystem::path place_of(const std::filesystem::path& model, const std::string& label,
                               const std::string& location, data_links links) {
    namespace fs = std::filesystem;
    if (location.empty() || location.find('\0') != std::string::npos)
        refuse(model, label, "external_data names no file");
    std::error_code failed;
    const fs::path folder = fs::canonical(fs::absolute(model).parent_path(), failed);
    if (failed) refuse(model, label, "the model's folder cannot be found: " + failed.message());
    const fs::path file = fs::canonical(folder / location, failed);
    if (failed) refuse(model, label, "its data is in " + in_quotes(location) + ": " + failed.message());
    const auto [in_folder, in_file] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
    if (in_folder == folder.end()) return file;
    if (!is_inside(location))
        refuse(model, label,
               "its data is in " + in_quotes(location) + ", outside the model's folder, which is not read");
    if (links == data_links::stay_in_folder) {
        refuse(model, label,
               "its data is in " + in_quotes(location) +
                   ", a link that leads outside the model's folder; --follow-links (data_links::lead_anywhere) allows "
                   "such links");
    }
    return file;
}

}  // namespace

std::string external_data::read(const std::string& label, const onnx::TensorProto& tensor, std::size_t size) {
    std::map<std::string, std::string> entries = entries_of(model_, label, tensor);
    const std::filesystem::path place = place_of(model_, label, entries["location"], links_);
    const std::size_t offset = entries.contains("offset") ? number(model_, label, "offset", entries["offset"]) : 0;
    const std::size_t length = entries.contains("length") ? number(model_, label, "length", entries["length"]) : size;
    if (length != size) {
        refuse(model_, label,
               "has " + std::to_string(length) + " bytes of external data; its type and shape need " +
                   std::to_string(size));
    }
    if (size == 0) return {};
    const io::regular_file file(place);
    // Half of the weights of one file and half of another are no network.
    if (seen_.try_emplace(place, file.state()).first->second != file.state())
        refuse(model_, label, in_quotes(entries["location"]) + " was changed while the model was read");
    if (offset > file.bytes() || file.bytes() - offset < size) {
        refuse(model_, label,
               in_quotes(entries["location"]) + " has " + std::to_string(file.bytes()) + " bytes; the data is " +
                   std::to_string(size) + " bytes at " + std::to_string(offset));
    }
    std::string bytes(size, '\0');
    file.read(offset, std::as_writable_bytes(std::span(bytes)));
    file.require_unchanged();
    return bytes;
}

std::vector<std::filesystem::path> external_data::files() const {
    std::vector<std::filesystem::path> made;
    for (const auto& [file, state] : seen_) made.push_back(file);
    return made;
}

}  // namespace sluice::nn::detail
