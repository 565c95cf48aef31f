// SPDX-License-Identifier: Apache-2.0
// cnn_on_one_stream: a small convolutional network reads handwritten digits. Convolution, pooling, convolution, pooling
// and a layer follow each other on one stream, batch after batch, without a wait in between. The pipeline is in
// cnn_on_one_stream.hpp, so that the simulator's tests can use it too.
//
//     cnn_on_one_stream [FOLDER]      with models/ and data/; by default the folder of the sources

#include "cnn_on_one_stream.hpp"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>

#include "sluice/io/npy.hpp"
#include "sluice/io/safetensors.hpp"

namespace {

using namespace cnn_on_one_stream;

network upload_network(const std::filesystem::path& file, scheduling_policy& pool) {
    const io::safetensors_file weights(file);
    const auto upload_one = [&](const char* name) {
        const io::tensor_entry* const entry = weights.find(name);
        if (entry == nullptr) throw error(errc::bad_file, file.string() + " has no tensor " + name);
        std::vector<float> values(entry->bytes.size() / io::size_of(entry->type));
        io::convert_to_float(entry->type, entry->bytes, values);
        return sync(share(upload(std::move(values), shape(entry->shape))), pool);
    };
    return {upload_one("convolution_1.weight"), upload_one("convolution_1.bias"), upload_one("convolution_2.weight"),
            upload_one("convolution_2.bias"),   upload_one("linear.weight"),      upload_one("linear.bias")};
}

void classify_digits(const std::filesystem::path& folder) {
    const auto images = io::npy_file(folder / "data/digits_inputs.npy").view().values<float>();
    const auto labels = io::npy_file(folder / "data/digits_labels.npy").view().values<std::int64_t>();
    const auto expected = io::npy_file(folder / "data/digits_cnn_logits.npy").view().values<float>();

    runtime machine;
    device& on = machine.default_device();
    single_stream stream(on);
    const network digits = upload_network(folder / "models/digits_cnn.safetensors", stream);
    constexpr std::size_t batch = 64;
    const std::vector<float> scores = scores_of(images, batch, digits, stream);

    std::size_t right = 0;
    bool agrees = scores.size() == expected.size();
    for (std::size_t i = 0; i < labels.size(); ++i) {
        right += best_of(&scores[i * classes]) == static_cast<std::size_t>(labels[i]) ? 1 : 0;
    }
    for (std::size_t i = 0; agrees && i < scores.size(); ++i) agrees = std::fabs(scores[i] - expected[i]) < 1e-4f;
    std::printf("%zu of %zu digits are right: accuracy %.4f\n", right, labels.size(),
                static_cast<double>(right) / static_cast<double>(labels.size()));
    std::printf("scores within 1e-4 of PyTorch's: %s\n", agrees ? "yes" : "no");

    // Lines that depend on the device and its libraries go to standard error.
    const auto [first, second] = workspace_use(batch, digits, on);
    std::fprintf(stderr, "workspace on %s for %zu images: %zu bytes for the first convolution, %zu for the second\n",
                 on.name().c_str(), batch, first, second);
}

}  // namespace

int main(int count, char** arguments) try {
    classify_digits(count > 1 ? arguments[1] : SLUICE_SOURCE_DIR);
} catch (const std::exception& failure) {
    std::fprintf(stderr, "cnn_on_one_stream: %s\n", failure.what());
    return 1;
}
