// SPDX-License-Identifier: Apache-2.0
// The network of models/digits.safetensors in 8 bits, next to itself in float, over the images of data/. The scales
// come from the first 100 images. On the default device, a GPU where there is one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "conformance/expect_refused.hpp"
#include "sluice/sluice.hpp"

namespace sluice::quantized_digits_tests {
namespace {

constexpr std::size_t images = 450, pixels = 64, classes = 10, sample = 100;

std::size_t class_of(std::span<const float> logits) {
    return static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
}

class digits_in_8_bits : public testing::Test {
protected:
    digits_in_8_bits() {
        const std::filesystem::path root = SLUICE_SOURCE_DIR;
        layers = nn::to_layers(nn::load_safetensors(root / "models/digits.safetensors"));
        rows.resize(images * pixels);
        io::npy_file(root / "data/digits_inputs.npy").view().read_rows(0, rows);
        float_logits.resize(images * classes);
        io::npy_file(root / "data/digits_logits.npy").view().read_rows(0, float_logits);
        const io::npy_file labels_file(root / "data/digits_labels.npy");
        labels = labels_file.view().values<std::int64_t>();
    }

    bool has(int capability) const {
        return on.kind() == device_kind::cpu || on.properties().compute_capability >= capability;
    }

    std::size_t right_ones(std::span<const float> logits) const {
        std::size_t right = 0;
        for (std::size_t i = 0; i < images; ++i) {
            right += class_of(logits.subspan(i * classes, classes)) == static_cast<std::size_t>(labels[i]);
        }
        return right;
    }

    template <typename T>
    std::vector<float> logits_in() {
        const mlp_scales scales = calibrate_mlp<T>(layers, std::span<const float>(rows).first(sample * pixels));
        const auto network = sync(pack_quantized_mlp<T>(layers, scales), pool);
        auto all = upload(rows, {images, pixels})
                       .and_then(quantize<T>(scales.input))
                       .and_then(fused_mlp(network))
                       .and_then(dequantize<float>(scales.outputs.back()))
                       .and_then(download);
        return sync(std::move(all), pool);
    }

    // Relative distance of all logits from those in float.
    double distance(std::span<const float> logits) const {
        double off = 0, norm = 0;
        for (std::size_t i = 0; i < logits.size(); ++i) {
            off += std::pow(double{logits[i]} - double{float_logits[i]}, 2);
            norm += std::pow(double{float_logits[i]}, 2);
        }
        return std::sqrt(off / norm);
    }

    template <typename T>
    void expect(std::size_t least_right, double most_distance) {
        const std::vector<float> logits = logits_in<T>();
        const std::size_t right = right_ones(logits);
        RecordProperty("right", std::to_string(right));
        RecordProperty("distance", std::to_string(distance(logits)));
        EXPECT_EQ(right_ones(float_logits), 444u);
        EXPECT_GE(right, least_right) << "of " << images;
        EXPECT_LE(distance(logits), most_distance);
    }

    std::vector<mlp_layer> layers;
    std::vector<float> rows, float_logits;
    std::vector<std::int64_t> labels;
    runtime machine;
    device& on = machine.default_device();
    round_robin pool{on, 2};
};

}  // namespace

TEST_F(digits_in_8_bits, are_read_as_well_in_f8_as_in_float) {
    if (has(89)) {
        expect<f8_e4m3>(443, 0.05);
    } else {
        conformance::expect_refused(errc::unsupported, {"f8_e4m3"}, [&] { logits_in<f8_e4m3>(); });
    }
}

TEST_F(digits_in_8_bits, are_read_as_well_in_integers_as_in_float) {
    if (has(80)) {
        expect<std::int8_t>(443, 0.012);
    } else {
        conformance::expect_refused(errc::unsupported, {"8.0"}, [&] { logits_in<std::int8_t>(); });
    }
}

}  // namespace sluice::quantized_digits_tests
