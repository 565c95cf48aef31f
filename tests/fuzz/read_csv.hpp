// SPDX-License-Identifier: Apache-2.0
// What the fuzzer, and the replay of files that it found, do with one table.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <span>

#include "sluice/base/file_error.hpp"
#include "sluice/io/csv.hpp"

namespace sluice::io::fuzz {

// Reads the table in several types and ways, and checks what parse_csv guarantees. A refusal (file_error) is correct;
// any other exception escapes, and a broken guarantee aborts.
inline void read_csv(std::span<const std::byte> file) {
    for (const dtype type : {dtype::f32, dtype::i64, dtype::u8, dtype::boolean}) {
        for (const csv_header header : {csv_header::recognized, csv_header::present, csv_header::absent}) {
            try {
                const csv_table table = parse_csv(file, "fuzz", type, {.separator = {}, .header = header});
                if (table.rows == 0 || table.columns == 0) std::abort();
                if (table.bytes.size() != table.rows * table.columns * size_of(type)) std::abort();
                if (table.bytes.capacity() > (file.size() / 2 + 1) * size_of(type)) std::abort();
                if (!table.names.empty() && table.names.size() != table.columns) std::abort();
            } catch (const file_error&) {
            }
        }
    }
}

}  // namespace sluice::io::fuzz
