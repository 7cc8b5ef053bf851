// Tables of calls with one bad argument each.
#pragma once

#include "attention_problem.hpp"
#include "catch_compat.hpp"

#include <functional>
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
