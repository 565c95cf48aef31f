// SPDX-License-Identifier: Apache-2.0
// The files of an ONNX network by the names of its inputs and outputs: NAME=FILE words.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::app {

using named_paths = std::map<std::string, std::filesystem::path>;

// The files of NAME=FILE words by the names of the values; a word without '=' names the only value. Throws
// errc::invalid_argument with the option for a name that is not among the values.
named_paths files_by_name(const std::vector<std::string>& words, const std::vector<nn::value_info>& values,
                          const std::string& option);

// The element at an address. A long double holds every number of each type.
long double number_at(const std::byte* from, io::dtype type);

// From the array in the file, which has the output's shape. NaN when one of two values is NaN; equal infinities do not
// differ. Throws file_error.
float largest_difference(const nn::any_tensor& answer, const std::filesystem::path& path);

// "'a', 'b'"
std::string names_of(const std::vector<nn::value_info>& values);

}  // namespace sluice::app
