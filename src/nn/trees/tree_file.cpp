// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

#include "document.hpp"
#include "readers.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/io/regular_file.hpp"
#include "sluice/nn/trees.hpp"

namespace sluice::nn {
namespace {

constexpr std::size_t first_bytes = 64;  // which say what a file is

enum class format { unknown, lightgbm, json, ubjson };

// The first eight bytes of a safetensors file are the length of its JSON, of at most 100 MB: they may look like these.
bool is_safetensors(std::string_view head) {
    return head.size() > 8 && head[8] == '{' && head.substr(4, 4) == std::string_view("\0\0\0\0", 4);
}

// The first bytes are enough. A UBJSON object continues with the type of a length, of which there are seven letters.
format format_of(std::string_view head) {
    if (is_safetensors(head)) return format::unknown;
    if (head.starts_with("tree\n") || head.starts_with("tree\r\n")) return format::lightgbm;
    if (head.size() >= 2 && head[0] == '{' && std::string_view("UiIlL$#").find(head[1]) != std::string_view::npos)
        return format::ubjson;
    const std::size_t first = head.find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && head[first] == '{' ? format::json : format::unknown;
}

bool has_ending(const std::filesystem::path& path) {
    std::string ending = path.extension().string();
    std::ranges::transform(ending, ending.begin(), [](unsigned char each) { return char(std::tolower(each)); });
    return ending == ".txt" || ending == ".json" || ending == ".ubj";
}

std::string_view text_of(std::span<const std::byte> file) {
    return {reinterpret_cast<const char*>(file.data()), file.size()};
}

}  // namespace

bool is_tree_file(const std::filesystem::path& path) {
    if (has_ending(path)) return true;
    try {
        const io::regular_file file(path);
        std::array<std::byte, first_bytes> head{};
        const std::size_t count = std::min(head.size(), file.bytes());
        file.read(0, std::span(head).first(count));
        return format_of(text_of(std::span(head).first(count))) != format::unknown;
    } catch (const error&) {
        return false;
    }
}

bool is_tree_file(std::span<const std::byte> file) noexcept {
    return format_of(text_of(file.first(std::min(file.size(), first_bytes)))) != format::unknown;
}

model read_trees(std::span<const std::byte> file, const std::filesystem::path& path) {
    const auto refuse = [&](const char* why) { throw file_error(path, file_error::no_offset, {}, why); };
    const format what = format_of(text_of(file));
    if (what == format::lightgbm) return trees::read_lightgbm(text_of(file), path);
    if (what == format::unknown)
        refuse("is not a model of trees: accepted are LightGBM's text, XGBoost's JSON and UBJSON, and CatBoost's JSON");
    const trees::document_value document =
        trees::read_document(file, path, what == format::json ? trees::notation::json : trees::notation::ubjson);
    const trees::field root(document, path);
    if (root.find("learner")) return trees::read_xgboost(document, path);
    if (root.find("features_info") || root.find("oblivious_trees")) return trees::read_catboost(document, path);
    if (root.find("tree_info"))
        refuse("is LightGBM's dump_model, which leaves out digits: accepted is what save_model writes");
    refuse("is not a model of trees: XGBoost's has the member learner, and CatBoost's features_info");
    return {};
}

model load_trees(const std::filesystem::path& path) { return read_trees(io::regular_file(path).read_all(), path); }

}  // namespace sluice::nn
