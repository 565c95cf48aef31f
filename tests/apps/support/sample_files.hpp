// SPDX-License-Identifier: Apache-2.0
// Networks and arrays for the tests of the tool: those of the repository, and small ones made on the spot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/support/temporary_directory.hpp"
#include "sluice/io/dtype.hpp"
#include "sluice/io/npy.hpp"
#include "sluice/io/npy_writer.hpp"

namespace sluice::app::testing {

using io::testing::temporary_directory;

// The trained network of the repository: 64 inputs, 10 outputs; 450 rows, their classes and outputs.
struct digits_files {
    static constexpr std::size_t rows = 450, inputs = 64, outputs = 10;
    std::string model;
    std::string input;
    std::string labels;
    std::string reference;
};
const digits_files& digits();

// The names in a directory, hidden ones too, with the files' contents (a hash of long ones): equal when nothing has
// changed.
std::map<std::string, std::string> snapshot(const temporary_directory& directory);

// A .npy file of these values.
template <class T>
std::string write_array(const temporary_directory& directory, const std::string& name, std::vector<std::size_t> shape,
                        const std::vector<T>& values, io::dtype type = io::dtype_of<T>) {
    io::npy_writer writer(directory / name, std::move(shape), type);
    writer.write_row_bytes(0, std::as_bytes(std::span(values)));
    writer.commit();
    return directory / name;
}
// A .npy file of f32 zeros that takes no room on the disk.
std::string write_sparse_array(const temporary_directory& directory, const std::string& name, std::size_t rows,
                               std::size_t columns);
// All values of a .npy file, as float.
std::vector<float> read_array(const std::filesystem::path& path);

// A network of layers with these widths, stored as "F32", "F16" or "BF16". Its weights and biases are small
// multiples of 1/4, so that every format holds them exactly.
std::string write_model(const temporary_directory& directory, const std::string& name,
                        const std::vector<std::size_t>& widths, const std::string& stored_as = "F32");
// Small multiples of 1/4, which f16 holds exactly.
std::vector<float> quarters(std::size_t size);
// The bits of an f16 with exactly this value, which must be one of quarters().
std::uint16_t f16_bits(float value);

}  // namespace sluice::app::testing
