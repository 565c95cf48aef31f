// SPDX-License-Identifier: Apache-2.0
// A plain table: each column as wide as its widest cell, numbers to the right; "-" stands for one that is not known.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "sluice/base/printable.hpp"

namespace sluice::app {

class text_table {
public:
    explicit text_table(std::vector<std::string> heading) : columns_(heading.size()) {
        for (std::size_t i = 0; i < heading.size(); ++i) columns_[i].width = heading[i].size();
        rows_.push_back(std::move(heading));
    }

    // As many cells as the heading has. They may hold anything: names in files, names of devices.
    void add(std::vector<std::string> row) {
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            std::string& cell = row[i] = printable(row[i]);
            columns_[i].width = std::max(columns_[i].width, width_of(cell));
            columns_[i].is_numeric &=
                cell == "-" || (!cell.empty() && std::isdigit(static_cast<unsigned char>(cell.front())) != 0);
        }
        rows_.push_back(std::move(row));
    }

    friend std::ostream& operator<<(std::ostream& out, const text_table& table) {
        for (const auto& row : table.rows_) {
            std::string line;
            for (std::size_t i = 0; i < row.size(); ++i) append(line, row[i], table.columns_[i]);
            line.erase(line.find_last_not_of(' ') + 1);
            out << line << '\n';
        }
        return out;
    }

private:
    // Known when the last row was added: to go through all rows for each cell would take quadratic time.
    struct column {
        std::size_t width = 0;
        bool is_numeric = true;
    };

    static void append(std::string& line, const std::string& cell, const column& in) {
        const std::string padding(in.width - width_of(cell), ' ');
        line += in.is_numeric ? padding + cell : cell + padding;
        line += "  ";
    }
    // Characters, not bytes: the bytes that continue one in UTF-8 add no width.
    static std::size_t width_of(const std::string& text) {
        const auto continues = [](char each) { return (static_cast<unsigned char>(each) & 0xc0u) == 0x80u; };
        return text.size() - static_cast<std::size_t>(std::count_if(text.begin(), text.end(), continues));
    }

    std::vector<column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace sluice::app
