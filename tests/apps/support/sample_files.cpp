// SPDX-License-Identifier: Apache-2.0
#include "apps/support/sample_files.hpp"

#include <bit>
#include <functional>

#include "io/support/hostile_files.hpp"

namespace sluice::app::testing {
namespace {

using io::testing::little_endian;

std::string encoded(float value, const std::string& stored_as) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (stored_as == "F16") return little_endian(f16_bits(value), 2);
    if (stored_as == "BF16") return little_endian(bits >> 16, 2);
    return little_endian(bits, 4);
}

// The header and the data of a safetensors file as they grow.
struct growing_file {
    std::string json = "{";
    std::string data;
    std::string stored_as;

    void add(const std::string& name, const std::string& shape, std::size_t size) {
        const std::size_t first = data.size();
        for (const float value : quarters(size)) data += encoded(value, stored_as);
        if (json.size() > 1) json += ',';
        json += '"' + name + R"(":{"dtype":")" + stored_as + R"(","shape":)" + shape + R"(,"data_offsets":[)" +
                std::to_string(first) + ',' + std::to_string(data.size()) + "]}";
    }
};

}  // namespace

const digits_files& digits() {
    const std::string root = SLUICE_SOURCE_DIR;
    static const digits_files files{root + "/models/digits.safetensors", root + "/data/digits_inputs.npy",
                                    root + "/data/digits_labels.npy", root + "/data/digits_logits.npy"};
    return files;
}

std::map<std::string, std::string> snapshot(const temporary_directory& directory) {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
        std::string contents = entry.is_regular_file() ? io::testing::read_file(entry.path()) : "no file";
        if (contents.size() > 64) {  // too long to print
            const std::size_t hash = std::hash<std::string>()(contents);
            contents = std::to_string(contents.size()) + " bytes with hash " + std::to_string(hash);
        }
        found[entry.path().filename()] = std::move(contents);
    }
    return found;
}

std::string write_sparse_array(const temporary_directory& directory, const std::string& name, std::size_t rows,
                               std::size_t columns) {
    const std::string shape = "(" + std::to_string(rows) + ", " + std::to_string(columns) + ")";
    const std::string head =
        io::testing::npy_bytes(io::testing::npy_dict("'<f4'", "False", shape) + std::string(64, ' '));
    const auto path = directory.write(name, head);
    std::filesystem::resize_file(path, head.size() + rows * columns * sizeof(float));
    return path;
}

std::vector<float> read_array(const std::filesystem::path& path) {
    const io::npy_file file(path);
    std::vector<float> values(file.view().rows() * file.view().row_elements());
    file.view().read_rows(0, values);
    return values;
}

std::string write_model(const temporary_directory& directory, const std::string& name,
                        const std::vector<std::size_t>& widths, const std::string& stored_as) {
    growing_file file;
    file.stored_as = stored_as;
    file.json += R"("__metadata__":{"activation":"relu"})";
    for (std::size_t layer = 0; layer + 1 < widths.size(); ++layer) {
        const std::string in = std::to_string(widths[layer]), out = std::to_string(widths[layer + 1]);
        const std::string number = std::to_string(2 * layer);
        file.add(number + ".weight", "[" + out + "," + in + "]", widths[layer] * widths[layer + 1]);
        file.add(number + ".bias", "[" + out + "]", widths[layer + 1]);
    }
    return directory.write(name, io::testing::safetensors_bytes(file.json + "}", file.data));
}

std::vector<float> quarters(std::size_t size) {
    std::vector<float> made(size);
    for (std::size_t i = 0; i < size; ++i) made[i] = static_cast<float>(static_cast<int>(i * 7 % 17) - 8) / 4;
    return made;
}

std::uint16_t f16_bits(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 31 << 15;
    if (value == 0) return static_cast<std::uint16_t>(sign);
    const std::uint32_t exponent = (bits >> 23 & 0xff) - 127 + 15;
    return static_cast<std::uint16_t>(sign | exponent << 10 | (bits >> 13 & 0x3ff));
}

}  // namespace sluice::app::testing
