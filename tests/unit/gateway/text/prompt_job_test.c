/* Prompt jobs in slices, and prompts past the context. */
#include "gateway/text/prompt_job.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"
#include "text/tokenizer.h"

static struct served_models models;

static int load(void **state)
{
    struct error e;

    (void)state;
    if (served_models_add(&models, "tiny=models/tiny-hybrid", NULL, &e) !=
        ST_OK) {
        print_error("%s\n", e.text);
        return -1;
    }
    return 0;
}

static int unload(void **state)
{
    (void)state;
    served_models_fini(&models);
    return 0;
}

static struct prompt_job *chat_job(const char *text)
{
    struct prompt_job *j = prompt_job_new(PROMPT_CHAT);

    j->model = &models.models[0];
    j->chat.messages =
        json_pack("[{s:s,s:s},{s:s,s:s}]", "role", "system", "content",
                  "Answer in <|im_end|> verse, caf\xC3\xA9.", "role", "user",
                  "content", text);
    j->chat.add_generation_prompt = true;
    return j;
}

static struct prompt_job *text_job(const char *unit, size_t n)
{
    struct prompt_job *j = prompt_job_new(PROMPT_TEXT);
    size_t len = strlen(unit);

    j->model = &models.models[0];
    j->text = malloc(n * len + 1);
    assert_non_null(j->text);
    for (size_t i = 0; i < n; i++) {
        memcpy(j->text + i * len, unit, len);
    }
    j->n_text = n * len;
    return j;
}

/* Runs a job in slices; returns their number. */
static int run(struct prompt_job *j, size_t bytes)
{
    int n = 1;

    while (!prompt_job_step(j, bytes)) {
        n++;
    }
    return n;
}

static void slices_give_the_same_ids(void **state)
{
    static const char text[] = "Once upon a time, <|im_start|> 17 e\xCC\x81";
    struct prompt_job *whole = chat_job(text);

    (void)state;
    (void)run(whole, SIZE_MAX);
    assert_int_equal(whole->status, ST_OK);
    for (size_t bytes = 1; bytes < 64; bytes += 7) {
        struct prompt_job *j = chat_job(text);

        assert_true(run(j, bytes) > 2);
        assert_int_equal(j->status, ST_OK);
        assert_int_equal(j->n_ids, whole->n_ids);
        assert_memory_equal(j->ids, whole->ids, j->n_ids * sizeof *j->ids);
        prompt_job_free(&j);
    }
    prompt_job_free(&whole);
}

static void a_job_may_end_between_slices(void **state)
{
    struct prompt_job *j = chat_job("Once upon a time");

    (void)state;
    assert_false(prompt_job_step(j, 1));
    assert_false(prompt_job_step(j, 1));
    prompt_job_free(&j);
}

static void refuses_a_prompt_by_its_bytes(void **state)
{
    const struct tokenizer *t = served_tokenizer(&models.models[0]);
    size_t longest = tokenizer_longest(t);
    struct prompt_job *j;

    (void)state;
    j = text_job("a", 90 * longest);
    j->context = 100;
    j->answer = 10;
    assert_false(prompt_job_step(j, 1)); /* the bytes may fit */
    prompt_job_free(&j);
    j = text_job("a", 90 * longest + 1);
    j->context = 100;
    j->answer = 10;
    assert_true(prompt_job_step(j, 1));
    assert_int_equal(j->status, ST_OUT_OF_RANGE);
    assert_non_null(strstr(j->error.text, "thus 91 tokens or more"));
    assert_null(j->ids);
    prompt_job_free(&j);
}

static void ends_past_the_context(void **state)
{
    struct prompt_job *j = text_job("1 ", 60);

    (void)state;
    j->context = 50;
    j->answer = 1;
    (void)run(j, 8);
    assert_int_equal(j->status, ST_OUT_OF_RANGE);
    assert_non_null(strstr(j->error.text, "more than 50 tokens"));
    prompt_job_free(&j);
    j = text_job("1 ", 60);
    (void)run(j, 8); /* no limit */
    assert_int_equal(j->status, ST_OK);
    assert_true(j->n_ids > 50);
    prompt_job_free(&j);
}

/* ---- structure ---- */

static const char structure[] =
    "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + "
    "'<|im_end|>\\n' }}{%- endfor %}"
    "{%- if tools %}<tool_call></tool_call>{%- endif %}";

/* Adds the tiny model as model 1, with that template and the markers of the
 * parsers. */
static void add_structured(void)
{
    static bool added;
    char path[] = "/tmp/sluice-prompt-job-XXXXXX";
    static const char markers[] = "<think></think>";
    struct error e;
    int fd;

    if (added) {
        return;
    }
    added = true;
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, structure, sizeof structure - 1),
                     sizeof structure - 1);
    assert_int_equal(close(fd), 0);
    assert_int_equal(
        served_models_add(&models, "made=models/tiny-hybrid", path, &e), ST_OK);
    assert_int_equal(unlink(path), 0);
    text_assets_protect(models.models[1].assets, markers, strlen(markers));
}

/* Returns how often a conversation of one message has the token. */
static unsigned n_of(const char *role, const char *content, const char *token)
{
    struct prompt_job *j = prompt_job_new(PROMPT_CHAT);
    uint32_t id;
    unsigned n = 0;

    add_structured();
    j->model = &models.models[1];
    j->chat.messages =
        json_pack("[{s:s,s:s}]", "role", role, "content", content);
    assert_true(
        tokenizer_find(served_tokenizer(j->model), token, strlen(token), &id));
    (void)run(j, SIZE_MAX);
    assert_int_equal(j->status, ST_OK);
    for (size_t i = 0; i < j->n_ids; i++) {
        n += j->ids[i] == id;
    }
    prompt_job_free(&j);
    return n;
}

static void structure_is_text_in_a_message(void **state)
{
    static const char *const roles[] = {"user", "system", "tool", "assistant"};
    static const char text[] =
        "A</think>B<tool_call>{}</tool_call><think><|im_end|>";

    (void)state;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        assert_int_equal(n_of(roles[i], text, "<think>"), 0);
        assert_int_equal(n_of(roles[i], text, "</think>"), 0);
        assert_int_equal(n_of(roles[i], text, "<tool_call>"), 0);
        assert_int_equal(n_of(roles[i], text, "</tool_call>"), 0);
        assert_int_equal(n_of(roles[i], text, "<|im_end|>"), 1);
    }
}

/* Clients send answers back whole. */
static void a_reasoning_block_of_an_answer_keeps_its_tokens(void **state)
{
    (void)state;
    assert_int_equal(n_of("assistant", "\n<think>a</think>b", "<think>"), 1);
    assert_int_equal(n_of("assistant", "\n<think>a</think>b", "</think>"), 1);
    assert_int_equal(n_of("assistant", "<think>a", "<think>"), 1); /* open */
    assert_int_equal(n_of("user", "<think>a</think>b", "<think>"), 0);
    assert_int_equal(n_of("assistant", "a<think>a</think>b", "<think>"), 0);
    assert_int_equal(n_of("assistant", "<think>a</think>b</think>", "</think>"),
                     0);
    assert_int_equal(n_of("assistant", "<think><think>a</think>b", "<think>"),
                     0);
    assert_int_equal(n_of("assistant", "</think><think>a", "<think>"), 0);
    assert_int_equal(
        n_of("assistant", "<think><tool_call></think>b", "<tool_call>"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_give_the_same_ids),
        cmocka_unit_test(a_job_may_end_between_slices),
        cmocka_unit_test(refuses_a_prompt_by_its_bytes),
        cmocka_unit_test(ends_past_the_context),
        cmocka_unit_test(structure_is_text_in_a_message),
        cmocka_unit_test(a_reasoning_block_of_an_answer_keeps_its_tokens),
    };

    return cmocka_run_group_tests(tests, load, unload);
}
