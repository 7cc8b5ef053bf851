// Tables of calls with one bad argument each.
#pragma once

#include "attention_problem.hpp"
#include "catch_compat.hpp"
#include "check.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace tensors {

/// A way to spoil a valid Call, and what the message must have in it.
template <class Call>
struct BadCall {
    std::string what;
    std::function<void(Call&)> spoil;
    std::vector<std::string> words;
};

inline constexpr std::int64_t huge_number = std::int64_t{1} << 62;
inline constexpr std::int64_t lowest_number = std::numeric_limits<std::int64_t>::min();

/// Adds every way in which a tensor can be wrong whatever it means. `view(call)` is the tensor, given in a valid Call.
template <class Call, class View>
void add_view(std::vector<BadCall<Call>>& all, const std::string& name, const View& view)
{
    Call valid;
    const std::vector<std::int64_t> shape(view(valid).shape.begin(), view(valid).shape.end());
    using Element = std::remove_reference_t<decltype(*view(valid).data)>;
    const auto add = [&](const std::string& what, const auto& spoil, std::vector<std::string> words) {
        all.push_back({name + " " + what, [=](Call& c) { spoil(view(c)); }, std::move(words)});
    };
    for (std::size_t r = 0; r < shape.size(); ++r) {
        add("longer", [=](auto& v) { ++v.shape[r]; }, {});  // it or what must fit it is named
        add("negative", [=](auto& v) { v.shape[r] = -1; }, {name, "-1"});
        add("lowest extent", [=](auto& v) { v.shape[r] = lowest_number; }, {name, std::to_string(lowest_number)});
        add("lowest stride", [=](auto& v) { v.strides[r] = lowest_number; }, {name, "strides", "64-bit"});
        if (shape[r] < 2) continue;
        add("far", [=](auto& v) { v.strides[r] = huge_number; }, {name, "strides", "64-bit"});
        add("far", [=](auto& v) { v.strides[r] = -huge_number; }, {name, "strides", "64-bit"});
    }
    add("null", [](auto& v) { v.data = nullptr; }, {name, "null", headwise::shape_text(shape)});
    add("misaligned",
        [](auto& v) {
            const auto address = reinterpret_cast<std::uintptr_t>(v.data) + 1;
            v.data = reinterpret_cast<Element*>(address);
        },
        {name, "misaligned", "aligned to " + std::to_string(sizeof(Element)) + " bytes"});
}

/// As add_view; and the tensor may not be left out.
template <class Call, class View>
void add_required_view(std::vector<BadCall<Call>>& all, const std::string& name, const View& view)
{
    add_view(all, name, view);
    all.push_back({name + " not given", [=](Call& c) { view(c) = {}; }, {}});
}

/// As add_view, for a tensor that is written.
template <class Call, class View>
void add_output_view(std::vector<BadCall<Call>>& all, const std::string& name, const View& view)
{
    add_view(all, name, view);
    Call valid;
    for (std::size_t r = 0; r < view(valid).shape.size(); ++r)
        if (view(valid).shape[r] > 1)
            all.push_back({name + " broadcast", [=](Call& c) { view(c).strides[r] = 0; }, {name, "strides", "apart"}});
}

/// Each call throws std::invalid_argument with a message that begins with the call's name, and writes nothing.
template <class Call>
void check_refused(const std::vector<BadCall<Call>>& calls, const std::string& name)
{
    for (const BadCall<Call>& bad : calls) {
        Call call;
        bad.spoil(call);
        std::string message;
        try {
            call.run();
            message = "nothing was thrown";
        } catch (const std::invalid_argument& error) {
            message = error.what();
        }
        INFO(bad.what << ": " << message);
        CHECK(message.starts_with(name + ": "));
        CHECK(message.find("; expected ") != std::string::npos);
        for (const std::string& word : bad.words) {
            INFO("without \"" << word << "\"");
            CHECK(message.find(word) != std::string::npos);
        }
        CHECK(call.untouched());
    }
}

}  // namespace tensors
