// SPDX-License-Identifier: Apache-2.0
// The kernels of quantized_mlp for GPUs, followed on a CPU: lanes and registers are those that the PTX documentation
// gives for mma.m16n8k32 and ldmatrix; which number goes where is what the kernels themselves use.
#include "kernels/quantized_mlp/quantized_mlp_dispatch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <vector>

#include "kernels/fused_mlp_reference.hpp"
#include "kernels/quantized_mlp_reference.hpp"

namespace sluice::quantized_mlp_layout_tests {
namespace {

using namespace kernels;
using conformance::random_floats;

constexpr int lanes = 32;

template <typename T>
float element_of(std::uint32_t word, int byte) {
    const auto bits = static_cast<std::uint8_t>(word >> (8 * byte));
    if constexpr (std::is_same_v<T, f8_e4m3>) {
        return f8_e4m3::from_bits(bits);
    } else {
        return static_cast<std::int8_t>(bits);
    }
}

// One warp: its registers, by lane.
template <typename T, int Width>
class warp {
public:
    static constexpr int blocks = Width / 8, steps = Width / 32;

    explicit warp(const quantized_mlp_call& call) : call_(call) {}

    void run(std::size_t first_row) {
        const auto* const image = static_cast<const std::uint8_t*>(call_.image);
        const std::size_t layers = call_.form.sizes.layers, bias_bytes = fused_bias_bytes(layers, Width);
        for (int lane = 0; lane < lanes; ++lane) load_inputs(lane, first_row);
        for (std::size_t layer = 0;; ++layer) {
            multiply(image + bias_bytes + layer * eight_bit::layer_bytes(Width));
            scale(reinterpret_cast<const float*>(image) + layer * Width, call_.form.factor[layer]);
            const bool is_relu = call_.form.sizes.after[layer] == activation::relu;
            for (auto& of_lane : d_) {
                for (auto& block : of_lane) {
                    for (float& each : block) each = is_relu && each < 0 ? 0 : each;
                }
            }
            if (layer + 1 == layers) break;
            for (int lane = 0; lane < lanes; ++lane) round_to_operand(lane);
        }
        for (int lane = 0; lane < lanes; ++lane) store_outputs(lane, first_row);
    }

private:
    static std::uint8_t bits_of(float x) {
        const T made = rounded_to_8_bits<T>(x);
        std::uint8_t bits;
        std::memcpy(&bits, &made, 1);
        return bits;
    }

    void load_inputs(int lane, std::size_t first_row) {
        const std::size_t columns = call_.form.sizes.in_features;
        for (int half = 0; half < 2; ++half) {
            const std::size_t row = first_row + lane / 4 + 8 * half;
            for (int piece = 0; piece < steps / 2; ++piece) {
                for (int byte = 0; byte < 16; ++byte) {
                    const std::size_t column = eight_bit::piece_column(piece, lane) + byte;
                    const std::uint32_t each = row < call_.rows && column < columns
                                                   ? static_cast<const std::uint8_t*>(call_.x)[row * columns + column]
                                                   : 0;
                    std::uint32_t& word =
                        a_[lane][eight_bit::piece_step(piece, byte / 4)][eight_bit::piece_part(byte / 4, half)];
                    if (byte % 4 == 0) word = 0;
                    word |= each << (8 * (byte % 4));
                }
            }
        }
    }

    void multiply(const std::uint8_t* weights) {
        for (auto& of_lane : d_) {
            for (auto& block : of_lane) block.fill(0);
        }
        for (int step = 0; step < steps; ++step) {
            for (int block = 0; block < blocks; block += 2) {
                // ldmatrix.x4: lane i names row i % 8 of matrix i / 8; each lane gets bytes 4 (lane % 4) to + 3 of row
                // lane / 4 of each matrix.
                const std::uint8_t* const from = weights + step * eight_bit::slab_bytes(Width) + block * 256;
                std::uint32_t b[lanes][4];
                for (int lane = 0; lane < lanes; ++lane) {
                    for (int matrix = 0; matrix < 4; ++matrix) {
                        std::memcpy(&b[lane][matrix], from + (8 * matrix + lane / 4) * 16 + lane % 4 * 4, 4);
                    }
                }
                mma(step, block, b, 0);
                mma(step, block + 1, b, 2);
            }
        }
    }

    // PTX ISA, "Matrix fragments for mma.m16n8k32": rows and columns of a, b and c by lane and place.
    void mma(int step, int block, const std::uint32_t (&b)[lanes][4], int first) {
        float left[16][32], right[32][8];
        for (int lane = 0; lane < lanes; ++lane) {
            const int group = lane >> 2, in_group = lane % 4;
            for (int i = 0; i < 16; ++i) {
                const int row = (0 <= i && i < 4) || (8 <= i && i < 12) ? group : group + 8;
                const int column = i < 8 ? in_group * 4 + (i & 3) : in_group * 4 + (i & 3) + 16;
                left[row][column] = element_of<T>(a_[lane][step][i / 4], i % 4);
            }
            for (int i = 0; i < 8; ++i) {
                const int row = i < 4 ? in_group * 4 + (i & 3) : in_group * 4 + (i & 3) + 16;
                right[row][group] = element_of<T>(b[lane][first + i / 4], i % 4);
            }
        }
        for (int lane = 0; lane < lanes; ++lane) {
            for (int i = 0; i < 4; ++i) {
                const int row = i < 2 ? lane >> 2 : (lane >> 2) + 8, column = lane % 4 * 2 + (i & 1);
                for (int k = 0; k < 32; ++k) d_[lane][block][i] += left[row][k] * right[k][column];
            }
        }
    }

    void scale(const float* biases, float factor) {
        for (int lane = 0; lane < lanes; ++lane) {
            for (int block = 0; block < blocks; ++block) {
                for (int place = 0; place < 4; ++place) {
                    // As scale_sums reads them: four floats of a lane for two blocks.
                    const float bias = biases[(block / 2 * 4 + lane % 4) * 4 + block % 2 * 2 + place % 2];
                    d_[lane][block][place] = std::fma(d_[lane][block][place], factor, bias);
                }
            }
        }
    }

    void round_to_operand(int lane) {
        for (int step = 0; step < steps; ++step) {
            for (int part = 0; part < 4; ++part) {
                std::uint32_t word = 0;
                for (int byte = 0; byte < 4; ++byte) {
                    const float from =
                        d_[lane][eight_bit::source_block(step, part, byte)][eight_bit::source_place(part, byte)];
                    word |= std::uint32_t{bits_of(from)} << (8 * byte);
                }
                a_[lane][step][part] = word;
            }
        }
    }

    void store_outputs(int lane, std::size_t first_row) {
        const std::size_t columns = call_.form.sizes.out_features;
        for (int half = 0; half < 2; ++half) {
            const std::size_t row = first_row + lane / 4 + 8 * half;
            for (int piece = 0; piece < blocks / 8; ++piece) {
                for (int byte = 0; byte < 16; ++byte) {
                    const std::size_t column = eight_bit::piece_column(piece, lane) + byte;
                    if (row >= call_.rows || column >= columns) continue;
                    static_cast<std::uint8_t*>(call_.out)[row * columns + column] =
                        bits_of(d_[lane][eight_bit::output_block(piece, byte)][eight_bit::output_place(byte, half)]);
                }
            }
        }
    }

    const quantized_mlp_call& call_;
    std::uint32_t a_[lanes][steps][4];
    std::array<std::array<float, 4>, blocks> d_[lanes];
};

template <typename T>
void run_warps(const quantized_mlp_call& call) {
    for (std::size_t first = 0; first < call.rows; first += 16) {
        switch (call.form.sizes.width) {
            case 64: warp<T, 64>(call).run(first); break;
            case 128: warp<T, 128>(call).run(first); break;
            default: warp<T, 256>(call).run(first);
        }
    }
}

// Sums of f8 in another order may round to the neighbour: integers cannot.
template <typename T>
void expect_same(const std::vector<T>& got, const std::vector<T>& expected) {
    ASSERT_EQ(got.size(), expected.size());
    std::size_t different = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        different += static_cast<float>(got[i]) != static_cast<float>(expected[i]);
    }
    if constexpr (std::is_same_v<T, std::int8_t>) {
        EXPECT_EQ(different, 0u) << "of " << got.size();
    } else {
        EXPECT_LE(different, got.size() / 100) << "of " << got.size();
    }
}

template <typename T>
void expect_warps_follow_the_definition(const std::vector<std::size_t>& widths) {
    SCOPED_TRACE(testing::PrintToString(widths));
    random_floats fresh{17};
    auto layers = conformance::random_network(fresh, widths, activation::relu, activation::none);
    const std::size_t rows = 21;
    const auto sample = fresh(rows * widths.front());
    const mlp_scales scales = calibrate_mlp<T>(layers, sample);
    const auto inputs = conformance::quantized<T>(sample, scales.input);
    const auto expected = conformance::quantized_reference(layers, scales, inputs);

    const auto form = detail::check_quantized_mlp(layers, scales, source_location::current());
    const auto image = quantized_image_for_cuda<T>(layers, scales.weights, form.sizes.width);
    std::vector<T> out(expected.size());
    run_warps<T>({inputs.data(), out.data(), image.data(), rows, form});
    expect_same(out, expected);
    EXPECT_GT(std::set<float>(out.begin(), out.end()).size(), 10u) << "outputs of few values would show little";
}

template <std::size_t (*Column)(std::size_t)>
void expect_permutation() {
    for (const std::size_t width : {64, 128, 256}) {
        std::set<std::size_t> all;
        for (std::size_t i = 0; i < width; ++i) all.insert(Column(i));
        EXPECT_EQ(all.size(), width);
        EXPECT_EQ(*all.rbegin(), width - 1);
    }
}

}  // namespace

TEST(quantized_mlp_layout, has_each_column_once) {
    expect_permutation<&eight_bit::hidden_column>();
    expect_permutation<&eight_bit::input_column>();
    expect_permutation<&eight_bit::output_column>();
}

TEST(quantized_mlp_layout, places_weights_as_tensor_cores_read_them) {
    for (const std::size_t width : {64, 128, 256}) {
        std::set<std::size_t> all;
        for (std::size_t n = 0; n < width; ++n) {
            for (std::size_t k = 0; k < width; ++k) {
                const std::size_t at = eight_bit::weight_offset(k, n, width);
                all.insert(at);
                // wgmma without swizzle: matrices of 8 rows of 16 bytes, the next along k 128 bytes on, the next along
                // n 256, as wgmma_operand() says; each step of 32 k a slab.
                EXPECT_EQ(at, k / 32 * 32 * width + (n / 8) * 256 + (k / 16 % 2) * 128 + n % 8 * 16 + k % 16);
            }
        }
        EXPECT_EQ(all.size(), width * width);
        EXPECT_EQ(*all.rbegin(), width * width - 1);
    }
}

TEST(quantized_mlp_layout, takes_every_number_of_a_network_to_its_place) {
    for (const std::vector<std::size_t>& widths :
         {std::vector<std::size_t>{64, 64}, std::vector<std::size_t>(6, 64), std::vector<std::size_t>(4, 128),
          std::vector<std::size_t>(3, 256), std::vector<std::size_t>{3, 5, 2}, std::vector<std::size_t>{64, 64, 64, 10},
          std::vector<std::size_t>{200, 17, 256, 31}, std::vector<std::size_t>{48, 100, 33, 96}}) {
        expect_warps_follow_the_definition<std::int8_t>(widths);
        expect_warps_follow_the_definition<f8_e4m3>(widths);
    }
}

TEST(quantized_mlp_layout, is_for_gpus_with_tensor_cores_of_the_type) {
    for (const int capability : {75, 80, 86, 87, 89, 90, 100, 120}) {
        EXPECT_EQ(why_no_8_bits(eight_bit_type::int8, capability).empty(), capability >= 80) << capability;
        EXPECT_EQ(why_no_8_bits(eight_bit_type::f8, capability).empty(), capability >= 89) << capability;
    }
    EXPECT_NE(why_no_8_bits(eight_bit_type::f8, 80).find("std::int8_t, half and bfloat16 run"), std::string_view::npos);
}

}  // namespace sluice::quantized_mlp_layout_tests
