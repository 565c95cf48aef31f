// A plain table: columns as wide as they need be, numbers to the right.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

namespace sluice::app {

class text_table {
public:
    explicit text_table(std::vector<std::string> heading) : rows_{std::move(heading)} {}

    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

    friend std::ostream& operator<<(std::ostream& out, const text_table& table) {
        for (const auto& row : table.rows_) {
            std::string line;
            for (std::size_t column = 0; column < row.size(); ++column) table.append(line, row[column], column);
            line.erase(line.find_last_not_of(' ') + 1);
            out << line << '\n';
        }
        return out;
    }

private:
    void append(std::string& line, const std::string& cell, std::size_t column) const {
        const std::string padding(width(column) - cell.size(), ' ');
        line += is_numeric(column) ? padding + cell : cell + padding;
        line += "  ";
    }
    std::size_t width(std::size_t column) const {
        std::size_t widest = 0;
        for (const auto& row : rows_) widest = std::max(widest, row[column].size());
        return widest;
    }
    bool is_numeric(std::size_t column) const {
        return std::all_of(rows_.begin() + 1, rows_.end(), [&](const auto& row) {
            return !row[column].empty() && std::isdigit(static_cast<unsigned char>(row[column].front())) != 0;
        });
    }

    std::vector<std::vector<std::string>> rows_;
};

}  // namespace sluice::app
