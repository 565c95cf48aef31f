// SPDX-License-Identifier: Apache-2.0
// Ensembles of trees from the files of LightGBM, XGBoost and CatBoost.
//
//     const nn::model trees = nn::load_trees("model.txt");   // or model.json, model.ubj
//     const nn::network ready = sync(nn::make_network(trees), pool);
//
// Read are the text of LightGBM (save_model), the JSON and UBJSON of XGBoost (save_model), and the JSON of CatBoost
// (save_model with format="json"). A network has one input, [batch, features]: f64 for LightGBM, f32 for the others, as
// these libraries compare. It has one output, `predictions`, [batch, outputs]: what the library's own predict gives, in
// its type (docs/formats.md, "Networks: trees"). On a CPU the numbers have the library's bits, except where the page
// says otherwise.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "sluice/nn/model.hpp"

namespace sluice::nn {

// Whether the file begins as one of these formats does: its first bytes say so, or its ending is .txt, .json or .ubj.
// False for a file that cannot be read. Costs the reading of some bytes.
bool is_tree_file(const std::filesystem::path& path);
// The same of a file in memory, which has no ending. Costs O(1).
bool is_tree_file(std::span<const std::byte> file) noexcept;

// Reads the file and checks it whole. The memory is proportional to the file's length. Costs O(bytes of the file); a
// split over categories costs O(n log n) for n categories.
//
// Throws file_error that names the file and the field: when it is none of these formats, is damaged or cut off, or has
// what Sluice does not know: linear trees, categories that are texts, other boosters than of trees, unknown objectives.
model load_trees(const std::filesystem::path& path);

// The same from memory; `path` is for messages.
model read_trees(std::span<const std::byte> file, const std::filesystem::path& path);

}  // namespace sluice::nn
