#include "c_views.hpp"

#include <array>

namespace headwise::c_interface {

namespace {

constexpr std::array element_type_names{"0, which is none", "boolean", "float32", "float64",
                                        "bfloat16",         "float16", "int64"};  // by headwise_element_type

bool known(headwise_element_type type)
{
    return type > 0 && static_cast<std::size_t>(type) < element_type_names.size();
}

/// `given` += `work`
void add(headwise_work& given, const Work& work)
{
    given.project_q += work.project_q;
    given.project_k += work.project_k;
    given.project_v += work.project_v;
    given.score += work.score;
    given.exponentials += work.exponentials;
    given.blend += work.blend;
    given.project_o += work.project_o;
}

}  // namespace

void check_pointer(const Check& check, std::string_view name, const void* pointer)
{
    if (pointer == nullptr) check.fail(name, "null", "a pointer");
}

void check_struct_size(const Check& check, std::string_view name, std::size_t size, std::size_t least)
{
    if (size < least || size > largest_size)
        check.fail(std::string(name) + "->struct_size", std::to_string(size),
                   "the size of the struct, " + std::to_string(least) + " or more");
}

void check_unknown_fields(const Check& check, std::string_view name, const void* given, std::size_t known,
                          std::size_t size)
{
    const auto* const bytes = static_cast<const unsigned char*>(given);
    if (std::any_of(bytes + known, bytes + size, [](unsigned char byte) { return byte != 0; }))
        check.fail(name, "a struct of " + std::to_string(size) + " bytes with fields that this version lacks set",
                   "0 past byte " + std::to_string(known));
}

std::string element_type_text(headwise_element_type type)
{
    return known(type) ? element_type_names[static_cast<std::size_t>(type)] : std::to_string(type) + ", which is none";
}

void check_tensor(const Check& check, std::string_view name, const headwise_tensor* tensor)
{
    if (tensor == nullptr) check.fail(name, "null", "a tensor");
    if (!known(tensor->element_type))
        check.fail(name, "of element type " + element_type_text(tensor->element_type), "a HEADWISE_ element type");
}

void check_layout(const Check& check, std::string_view name, const headwise_tensor& tensor, headwise_element_type type,
                  std::int32_t largest_rank)
{
    if (tensor.element_type != type)
        check.fail(name, "of element type " + element_type_text(tensor.element_type),
                   "element type " + element_type_text(type));
    if (tensor.rank < 1 || tensor.rank > largest_rank)
        check.fail(name, "of rank " + std::to_string(tensor.rank),
                   largest_rank == 1 ? "rank 1" : "rank 1 to " + std::to_string(largest_rank));
}

Mask mask_from(const Check& check, const headwise_tensor* tensor)
{
    if (tensor == nullptr) return {};
    check_tensor(check, "mask", tensor);
    switch (tensor->element_type) {
        case HEADWISE_BOOLEAN: return optional_view<const bool, 4>(check, "mask", tensor);
        case HEADWISE_FLOAT32: return optional_view<const float, 4>(check, "mask", tensor);
        case HEADWISE_FLOAT64: return optional_view<const double, 4>(check, "mask", tensor);
        case HEADWISE_BFLOAT16: return optional_view<const bfloat16, 4>(check, "mask", tensor);
        case HEADWISE_FLOAT16: return optional_view<const float16, 4>(check, "mask", tensor);
        default: break;
    }
    check.fail("mask", "of element type " + element_type_text(tensor->element_type),
               "boolean, float32 or the element type of Q");
}

void check_flags(const Check& check, const headwise_attention_options& options)
{
    const auto unflagged = [&](std::string_view name, const std::string& value) {
        check.fail(name, value, "0, or has_" + std::string(name) + " set");
    };
    if (!options.has_scale && options.scale != 0) unflagged("scale", number_text(options.scale));
    if (!options.has_left_window && options.left_window != 0)
        unflagged("left_window", std::to_string(options.left_window));
    if (!options.has_right_window && options.right_window != 0)
        unflagged("right_window", std::to_string(options.right_window));
    if (options.reserved != 0) check.fail("reserved", std::to_string(options.reserved), "0");
}

void add_work(headwise_work_report& given, const WorkReport& work)
{
    add(given.useful, work.useful);
    add(given.issued, work.issued);
}

}  // namespace headwise::c_interface
