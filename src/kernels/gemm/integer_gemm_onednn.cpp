// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit integers by oneDNN, which multiplies unsigned ones by signed ones. Others are moved by 128 in a
// copy, and their zero point with them.
#include <string>
#include <vector>

#include "kernels/gemm/integer_gemm.hpp"
#include "kernels/onednn.hpp"

namespace sluice::kernels {
namespace {

// DNNL_MAX_CPU_ISA may limit oneDNN to less than the processor has.
bool has_exact_sums() {
#if defined(__x86_64__)
    constexpr unsigned wanted = dnnl_cpu_isa_avx512_core_vnni;
    static const bool has = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512vl") &&
                            (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & wanted) == wanted;
    return has;
#else
    return false;
#endif
}

// The bytes moved by 128: signed ones become unsigned, and the other way round.
const void* moved(const byte_matrix& of, std::size_t count, std::vector<std::uint8_t>& to) {
    if (to.size() < count) to.resize(count);
    const auto* const from = static_cast<const std::uint8_t*>(of.data);
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(from[i] ^ 0x80u);
    return to.data();
}

// What a thread keeps for its next product.
constexpr std::size_t most_kept = std::size_t{4} << 20;
void shrink(std::vector<std::uint8_t>& scratch) {
    if (scratch.size() > most_kept) std::vector<std::uint8_t>().swap(scratch);
}

}  // namespace

bool multiply_bytes_on_cpu(const byte_matrix& a, const byte_matrix& b, std::size_t rows, std::size_t inner,
                           std::size_t columns, std::int32_t* out) {
    if (!has_exact_sums()) return false;
    thread_local std::vector<std::uint8_t> unsigned_a, signed_b;
    const void* const left = a.is_signed ? moved(a, rows * inner, unsigned_a) : a.data;
    const void* const right = b.is_signed ? b.data : moved(b, inner * columns, signed_b);
    const auto left_zero = static_cast<std::uint8_t>(a.is_signed ? a.zero + 128 : a.zero);
    const auto right_zero = static_cast<std::int8_t>(b.is_signed ? b.zero : b.zero - 128);
    const auto m = static_cast<dnnl_dim_t>(rows), n = static_cast<dnnl_dim_t>(columns),
               k = static_cast<dnnl_dim_t>(inner);
    const std::int32_t nothing = 0;
    const onednn::single_threaded here;
    const dnnl_status_t status =
        dnnl_gemm_u8s8s32('N', 'N', 'F', m, n, k, 1.0f, static_cast<const std::uint8_t*>(left), k, left_zero,
                          static_cast<const std::int8_t*>(right), n, right_zero, 0.0f, out, n, &nothing);
    shrink(unsigned_a);
    shrink(signed_b);
    if (status == dnnl_success) return true;
    throw device_error(make_error_code(errc::device_failed), "oneDNN: status " + std::to_string(status),
                       {"product of integers", "cpu"});
}

}  // namespace sluice::kernels
