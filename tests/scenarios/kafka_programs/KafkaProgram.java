import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's own client: commands come in lines of standard input, each is answered by a line of JSON. */
public class KafkaProgram {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final BufferedReader LINES = new BufferedReader(new InputStreamReader(System.in));

    public static void main(String[] arguments) throws Exception {
        for (String line = LINES.readLine(); line != null; line = LINES.readLine()) {
            String[] words = line.split("\t");
            Map<String, String> asked = new HashMap<>();
            for (int number = 1; number < words.length; number++) {
                String[] option = words[number].split("=", 2);
                asked.put(option[0], option[1]);
            }
            try {
                say(answer(words[0], asked));
            } catch (Exception error) {
                say("{\"error\": " + text(causes(error)) + "}");
            }
        }
    }

    private static String answer(String command, Map<String, String> asked) throws Exception {
        switch (command) {
            case "produce": return produce(asked);
            case "consume": return consume(asked);
            case "find": return find(asked);
            case "administer": return administer(asked);
            case "alter": return alter(asked);
            case "groups": return groups(asked);
            case "move": return move(asked);
            case "unset": return unset(asked);
            case "forget": return forget(asked);
            case "transact": return transact(asked);
            case "join": return join(asked);
            default: throw new IllegalArgumentException(command);
        }
    }

    /** Endpoint, TLS and login; what a client has by default is left as it is. */
    private static Map<String, Object> settings(Map<String, String> asked) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", asked.get("endpoint"));
        String mechanism = asked.get("mechanism");
        String ca = asked.get("ca");
        settings.put("security.protocol", (mechanism == null ? "" : "SASL_") + (ca == null ? "PLAINTEXT" : "SSL"));
        if (ca != null) {
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.location", ca);
        }
        if (asked.get("certificate") != null) {
            settings.put("ssl.keystore.type", "PEM");
            settings.put("ssl.keystore.location", asked.get("certificate"));
        }
        if (mechanism != null) {
            String kind = mechanism.equals("PLAIN") ? "plain.Plain" : "scram.Scram";
            settings.put("sasl.mechanism", mechanism);
            settings.put("sasl.jaas.config", String.format(
                "org.apache.kafka.common.security.%sLoginModule required username=\"%s\" password=\"%s\";",
                kind, asked.get("username"), asked.get("password")));
        }
        settings.put("key.serializer", StringSerializer.class);
        settings.put("value.serializer", StringSerializer.class);
        settings.put("key.deserializer", StringDeserializer.class);
        settings.put("value.deserializer", StringDeserializer.class);
        return settings;
    }

    private static String produce(Map<String, String> asked) throws Exception {
        Map<String, Object> settings = settings(asked);
        settings.put("compression.type", asked.get("codec"));
        if (asked.get("idempotent").equals("false")) {
            settings.put("enable.idempotence", false);
        }
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            for (int number = 0; number < Integer.parseInt(asked.get("records")); number++) {
                String value = asked.get("name") + " " + number;
                sent.add(producer.send(new ProducerRecord<>(asked.get("topic"), 0, null, value)));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
        }
        return "{}";
    }

    private static String consume(Map<String, String> asked) {
        int records = Integer.parseInt(asked.get("records"));
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings(asked))) {
            TopicPartition partition = new TopicPartition(asked.get("topic"), 0);
            consumer.assign(List.of(partition));
            consumer.seek(partition, Long.parseLong(asked.get("offset")));
            while (found.size() < records) {
                for (ConsumerRecord<String, String> one : consumer.poll(POLL)) {
                    found.add("[" + one.offset() + ", " + text(one.value()) + "]");
                }
            }
        }
        return "{\"records\": [" + String.join(", ", found.subList(0, records)) + "]}";
    }

    private static String find(Map<String, String> asked) {
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings(asked))) {
            TopicPartition partition = new TopicPartition(asked.get("topic"), 0);
            long wanted = Long.parseLong(asked.get("time_ms"));
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, wanted)).get(partition);
            long start = consumer.beginningOffsets(List.of(partition)).get(partition);
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            return String.format("{\"found\": %d, \"start\": %d, \"end\": %d}", found.offset(), start, end);
        }
    }

    private static String administer(Map<String, String> asked) throws Exception {
        String topic = asked.get("topic");
        String again = "";
        try (Admin admin = Admin.create(settings(asked))) {
            List<NewTopic> made = List.of(new NewTopic(topic, 3, (short) 1));
            admin.createTopics(made).all().get();
            try {
                admin.createTopics(made).all().get();
            } catch (Exception error) {
                again = causes(error);
            }
            int partitions =
                admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
            String listed =
                admin.listTopics().names().get().stream().map(KafkaProgram::text).collect(Collectors.joining(", "));
            return String.format(
                "{\"listed\": [%s], \"partitions\": %d, \"again\": %s}", listed, partitions, text(again));
        }
    }

    /** Makes a topic again after each deletion, sets a config, and one to what it cannot be. */
    private static String alter(Map<String, String> asked) throws Exception {
        String topic = asked.get("topic");
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        String refused = "";
        try (Admin admin = Admin.create(settings(asked))) {
            for (int times = 0; times < 2; times++) {
                admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all().get();
                admin.deleteTopics(List.of(topic)).all().get();
            }
            admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all().get();
            admin.incrementalAlterConfigs(retention(resource, "60000")).all().get();
            String value = admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value();
            try {
                admin.incrementalAlterConfigs(retention(resource, "soon")).all().get();
            } catch (Exception error) {
                refused = causes(error);
            }
            return String.format("{\"value\": %s, \"refused\": %s}", text(value), text(refused));
        }
    }

    private static Map<ConfigResource, Collection<AlterConfigOp>> retention(ConfigResource resource, String value) {
        ConfigEntry entry = new ConfigEntry("retention.ms", value);
        return Map.of(resource, List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)));
    }

    private static String groups(Map<String, String> asked) throws Exception {
        String group = asked.get("group");
        try (Admin admin = Admin.create(settings(asked))) {
            String listed = admin.listConsumerGroups().all().get().stream()
                .map(one -> text(one.groupId())).collect(Collectors.joining(", "));
            ConsumerGroupDescription described =
                admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            String offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().entrySet()
                .stream().map(one -> "[" + one.getKey().partition() + ", " + one.getValue().offset() + "]")
                .collect(Collectors.joining(", "));
            return String.format("{\"listed\": [%s], \"state\": %s, \"members\": %d, \"offsets\": [%s]}", listed,
                text(described.state().toString()), described.members().size(), offsets);
        }
    }

    private static String move(Map<String, String> asked) throws Exception {
        TopicPartition partition = new TopicPartition(asked.get("topic"), 1);
        OffsetAndMetadata offset = new OffsetAndMetadata(Long.parseLong(asked.get("offset")));
        try (Admin admin = Admin.create(settings(asked))) {
            admin.alterConsumerGroupOffsets(asked.get("group"), Map.of(partition, offset)).all().get();
        }
        return "{}";
    }

    private static String unset(Map<String, String> asked) throws Exception {
        Set<TopicPartition> partitions = Set.of(new TopicPartition(asked.get("topic"), 1));
        try (Admin admin = Admin.create(settings(asked))) {
            admin.deleteConsumerGroupOffsets(asked.get("group"), partitions).all().get();
        }
        return "{}";
    }

    private static String forget(Map<String, String> asked) throws Exception {
        try (Admin admin = Admin.create(settings(asked))) {
            admin.deleteConsumerGroups(List.of(asked.get("group"))).all().get();
        }
        return "{}";
    }

    private static String transact(Map<String, String> asked) {
        Map<String, Object> settings = settings(asked);
        settings.put("transactional.id", "one");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            producer.initTransactions();
        }
        return "{}";
    }

    /** Reads as a member of a group, and commits what it has read before it says so. */
    private static String join(Map<String, String> asked) throws Exception {
        Map<String, Object> settings = settings(asked);
        settings.put("group.id", asked.get("group"));
        settings.put("group.protocol", asked.get("protocol"));
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        if (asked.get("protocol").equals("classic")) {
            int session = Integer.parseInt(asked.get("session_ms"));
            settings.put("session.timeout.ms", session);
            settings.put("heartbeat.interval.ms", session / 5);
        }
        if (asked.get("instance") != null) {
            settings.put("group.instance.id", asked.get("instance"));
        }
        if (asked.get("cooperative") != null) {
            settings.put("partition.assignment.strategy", CooperativeStickyAssignor.class.getName());
        }
        Thread waiting = new Thread(KafkaProgram::waitUntilNobodyAsks);
        waiting.setDaemon(true);
        waiting.start();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(asked.get("topic")));
            Set<TopicPartition> assigned = Set.of();
            List<String> places = new ArrayList<>();
            while (waiting.isAlive()) {
                for (ConsumerRecord<String, String> one : consumer.poll(POLL)) {
                    places.add("[" + one.partition() + ", " + one.offset() + "]");
                }
                if (!places.isEmpty() && commits(consumer)) {
                    say("{\"got\": [" + String.join(", ", places) + "]}");
                    places.clear();
                }
                if (!consumer.assignment().equals(assigned)) {
                    assigned = Set.copyOf(consumer.assignment());
                    say("{\"assigned\": " + assigned.stream().map(TopicPartition::partition).toList() + "}");
                }
            }
        }
        return "{}";
    }

    /** False while partitions are on their way to others, who may read the same again. */
    private static boolean commits(KafkaConsumer<String, String> consumer) {
        try {
            consumer.commitSync();
            return true;
        } catch (CommitFailedException | RebalanceInProgressException error) {
            return false;
        }
    }

    private static void waitUntilNobodyAsks() {
        try {
            while (LINES.readLine() != null) { }
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    private static String causes(Throwable error) {
        return error.getCause() == null ? error.toString() : error + ": " + causes(error.getCause());
    }

    private static String text(String plain) {
        return "\"" + plain.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ") + "\"";
    }

    private static synchronized void say(String answer) {
        System.out.println(answer);
    }
}
