// SPDX-License-Identifier: Apache-2.0
// The kinds of recurrent layers, and their gates.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

// gru_reset_first: the reset gate is a factor of the state before the product; gru_reset_last: of the product.
enum class recurrent_kind : std::uint64_t { rnn, gru_reset_first, gru_reset_last, lstm };

// The order of gates is that of ONNX. LSTM: input, output, forget, cell. GRU: update, reset, hidden.
constexpr std::size_t gates_of(recurrent_kind kind) noexcept {
    return kind == recurrent_kind::rnn ? 1 : kind == recurrent_kind::lstm ? 4 : 3;
}

}  // namespace sluice::kernels
