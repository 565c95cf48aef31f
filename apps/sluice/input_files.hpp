// SPDX-License-Identifier: Apache-2.0
// The files that inputs come from: NumPy arrays, tables of numbers, pictures. The ending of a file's name says which.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "image_options.hpp"
#include "run_command.hpp"
#include "sluice/io/csv.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::app {

enum class input_kind { npy, npz, csv, images };

// What a word of the command line names.
struct input_source {
    input_kind kind = input_kind::npy;
    std::filesystem::path file;         // or a folder with pictures
    std::optional<std::string> member;  // of an .npz
};

// FILE.npz:MEMBER names an array in an archive. Without a known ending a file is a NumPy array. Throws error
// (errc::invalid_argument) when a word means a member, and there is also a file of that whole name.
input_source source_of(const std::string& word);

// How tables and pictures are read.
struct input_options {
    io::csv_options csv;
    image_options images;
    std::span<const std::string> texts = {};  // that the network knows: model::texts
};

// Of --csv and --image, and of the metadata in the file of an ONNX network where one of the inputs is a picture. Throws
// error (errc::invalid_argument) for what is not known, and for an option that is for none of the inputs; file_error.
input_options parse_input_options(const run_options& options, const std::vector<input_source>& inputs);

// Of the type that the network takes. From arrays, numbers of other types become floats where it takes floats. A table
// is [rows, columns]; where the network takes one dimension, a table of one column, and where it takes more than two,
// each line is what one index of the first selects. Throws file_error for a file that does not fit, or is changed
// meanwhile.
nn::any_tensor read_input(const input_source& source, const nn::value_info& as, const input_options& options);

// The same of a file that needs no options: an array, or a table as it is read without --csv. Throws error
// (errc::invalid_argument) for pictures.
nn::any_tensor read_plain_input(const std::filesystem::path& file, const nn::value_info& as);

}  // namespace sluice::app
