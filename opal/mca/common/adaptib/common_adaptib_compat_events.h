// SPDX-License-Identifier: BSD-3-Clause
/*
 * The runtime's events on ended processes, for both Open MPI releases: 4.1 passes them on through a
 * module of its own, with 5.0 PMIx is called directly. A part of common_adaptib_mca_ended.c, and of
 * nothing else.
 *
 *   events_listen()         asks for the events; the runtime may answer later. False: there are
 *                           none
 *   events_ignore(handler)  ends that; `handler` is the number that the runtime has answered with
 *
 * The runtime calls, in a thread of its own, on_registered with that number, and process_ended for
 * each process. After this handler the event goes on to the next one as if this handler did not
 * exist; by default that ends this process.
 */
#ifndef OPAL_COMMON_ADAPTIB_COMPAT_EVENTS_H
#define OPAL_COMMON_ADAPTIB_COMPAT_EVENTS_H

#include "common_adaptib_compat.h"

static void on_registered(bool listening, size_t handler);
static void process_ended(const opal_process_name_t *name);

#if OPAL_MAJOR_VERSION >= 5

static void event_ended(const pmix_proc_t *process)
{
    opal_process_name_t name;
    pmix_proc_t copy = *process;
    int rc;

    OPAL_PMIX_CONVERT_PROCT(rc, &name, &copy);
    if (OPAL_SUCCESS == rc && OPAL_VPID_WILDCARD != name.vpid) {
        process_ended(&name);
    }
}

/* Takes the processes that an event is about; if it names none, its source. */
static void event_came(size_t handler, pmix_status_t event, const pmix_proc_t *source,
                       pmix_info_t *info, size_t count, pmix_info_t *results, size_t result_count,
                       pmix_event_notification_cbfunc_fn_t done, void *done_data)
{
    bool named = false;

    (void) handler;
    (void) event;
    (void) results;
    (void) result_count;
    for (size_t i = 0; i < count; ++i) {
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC) && PMIX_PROC == info[i].value.type) {
            event_ended(info[i].value.data.proc);
            named = true;
        } else if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROCS)
                   && PMIX_DATA_ARRAY == info[i].value.type
                   && PMIX_PROC == info[i].value.data.darray->type) {
            const pmix_proc_t *processes = info[i].value.data.darray->array;

            for (size_t k = 0; k < info[i].value.data.darray->size; ++k) {
                event_ended(&processes[k]);
            }
            named = true;
        }
    }
    if (!named && NULL != source) {
        event_ended(source);
    }
    if (NULL != done) {
        done(PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, done_data);
    }
}

static void event_registered(pmix_status_t status, size_t handler, void *context)
{
    (void) context;
    on_registered(PMIX_SUCCESS == status, handler);
}

static void event_deregistered(pmix_status_t status, void *context)
{
    (void) status;
    (void) context;
}

/* Registers before Open MPI's own handler of such events, which passes them on to no other. */
static bool events_listen(void)
{
    static pmix_status_t codes[] = {
        PMIX_ERR_PROC_ABORTED,       PMIX_ERR_PROC_ABORTED_BY_SIG, PMIX_ERR_PROC_TERM_WO_SYNC,
        PMIX_ERR_PROC_KILLED_BY_CMD, PMIX_ERR_EXIT_NONZERO_TERM,   PMIX_EVENT_PROC_TERMINATED,
    };
    static pmix_info_t directives[1];
    const size_t count = sizeof(codes) / sizeof(codes[0]);

    PMIX_INFO_LOAD(&directives[0], PMIX_EVENT_HDLR_PREPEND, NULL, PMIX_BOOL);
    return PMIX_SUCCESS
           == PMIx_Register_event_handler(codes, count, directives, 1, event_came, event_registered,
                                          NULL);
}

static void events_ignore(size_t handler)
{
    (void) PMIx_Deregister_event_handler(handler, event_deregistered, NULL);
}

#else /* 4.1 */

#include "opal/mca/pmix/base/base.h"

/* Takes the processes that an event is about; if it names none, its source. */
static void event_came(int event, const opal_process_name_t *source, opal_list_t *info,
                       opal_list_t *results, opal_pmix_notification_complete_fn_t done,
                       void *done_data)
{
    bool named = false;
    opal_value_t *value;

    (void) event;
    (void) results;
    if (NULL != info) {
        OPAL_LIST_FOREACH(value, info, opal_value_t)
        {
            if (NULL != value->key && 0 == strcmp(value->key, OPAL_PMIX_EVENT_AFFECTED_PROC)
                && OPAL_NAME == value->type) {
                process_ended(&value->data.name);
                named = true;
            }
        }
    }
    if (!named && NULL != source) {
        process_ended(source);
    }
    if (NULL != done) {
        done(OPAL_SUCCESS, NULL, NULL, NULL, done_data);
    }
}

static void event_registered(int status, size_t handler, void *context)
{
    (void) context;
    on_registered(OPAL_SUCCESS == status, handler);
}

static void event_deregistered(int status, void *context)
{
    (void) status;
    (void) context;
}

/* Modules that do not pass events on have room for one handler only, which is Open MPI's own. */
static bool events_listen(void)
{
    opal_list_t codes;
    opal_value_t *code;

    if (NULL == opal_pmix.register_evhandler || NULL == opal_pmix.deregister_evhandler
        || opal_pmix_base_register_handler == opal_pmix.register_evhandler) {
        return false;
    }
    OBJ_CONSTRUCT(&codes, opal_list_t);
    code = OBJ_NEW(opal_value_t);
    code->key = strdup("status");
    code->type = OPAL_INT;
    code->data.integer = OPAL_ERR_PROC_ABORTED;
    opal_list_append(&codes, &code->super);
    opal_pmix.register_evhandler(&codes, NULL, event_came, event_registered, NULL);
    OPAL_LIST_DESTRUCT(&codes);
    return true;
}

static void events_ignore(size_t handler)
{
    opal_pmix.deregister_evhandler(handler, event_deregistered, NULL);
}

#endif

#endif /* OPAL_COMMON_ADAPTIB_COMPAT_EVENTS_H */
