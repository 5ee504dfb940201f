/* A transport in C that claims to be one of two ranks, and moves nothing. */
#include "sconce.h"

SCONCE_TRANSPORT_PLUGIN("idle-transport", "0.1.0", "Moves nothing.", SCONCE_TRANSPORT("mpi", "Not an MPI."));

static const sconce_c_table *c;
static char instance;

static uint32_t open(sconce_text name, sconce_text config, double timeout, void **opened, sconce_string *facts,
                     sconce_error *error) {
  double seconds = 0;
  if (!sconce_is(name, "mpi") || c->json_number(config, sconce_str("/timeout"), &seconds) != SCONCE_OK)
    return sconce_fail(c, error, "called wrongly");
  if (timeout != seconds) return sconce_fail(c, error, "the timeouts differ");
  if (timeout < 1.0) return sconce_fail(c, error, "there is no time");
  *opened = &instance;
  c->set_string(facts, sconce_str("{\"rank\": 0, \"size\": 2, \"hosts\": [\"here\", \"there\"], \"about\": \"nothing\"}"));
  return SCONCE_OK;
}

static uint32_t broadcast(void *i, uint8_t *data, uint64_t length, uint64_t root, sconce_error *error) {
  (void)data, (void)length, (void)error;
  return i == &instance && root < 2 ? SCONCE_OK : SCONCE_INVALID;
}

static uint32_t gather(void *i, const uint8_t *own, uint64_t length, uint8_t *all, sconce_error *error) {
  (void)i, (void)own, (void)length, (void)all, (void)error;
  return SCONCE_OK;
}

static uint32_t exchange(void *i, const uint8_t *send, const uint64_t *send_at, uint8_t *receive,
                         const uint64_t *receive_at, sconce_error *error) {
  (void)i, (void)send, (void)send_at, (void)receive, (void)receive_at, (void)error;
  return SCONCE_OK;
}

static uint32_t collect(void *i, uint8_t *data, const uint64_t *at, sconce_error *error) {
  (void)i, (void)data, (void)at, (void)error;
  return SCONCE_OK;
}

static void end_all(void *i, uint32_t code) { (void)i, (void)code; }

static uint32_t close(void *i, sconce_error *error) {
  (void)i, (void)error;
  return SCONCE_OK;
}

static const sconce_transport_table table = {open, broadcast, gather, exchange, collect, end_all, close};

static const void *query(sconce_text extension) { return sconce_is(extension, SCONCE_TRANSPORT_ID) ? &table : NULL; }

static const sconce_plugin plugin = {SCONCE_ABI_EPOCH, NULL, NULL, query};

const sconce_plugin *sconce_c_plugin_v1(const sconce_host *host) {
  c = (const sconce_c_table *)host->query(sconce_str(SCONCE_C_ID));
  return c == NULL ? NULL : &plugin;
}
