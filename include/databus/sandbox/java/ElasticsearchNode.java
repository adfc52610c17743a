import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.PluginsLoader;

/** One Elasticsearch node in the foreground: ElasticsearchNode HOME MODULES HTTP_PORT TRANSPORT_PORT. */
public final class ElasticsearchNode {
  private ElasticsearchNode() {}

  public static void main(String[] args) throws Exception {
    Path home = Path.of(args[0]);
    Path modules = Path.of(args[1]);
    System.setProperty("es.path.home", home.toString());
    LogConfigurator.configureESLogging();

    Settings settings =
        Settings.builder()
            .put("path.home", home.toString())
            .put("cluster.name", "databus")
            .put("node.name", "node-1")
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("http.port", Integer.parseInt(args[2]))
            .put("transport.port", Integer.parseInt(args[3]))
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .put("node.store.allow_mmap", false)
            .build();
    PluginsLoader plugins =
        PluginsLoader.createPluginsLoader(
            PluginsLoader.loadModulesBundles(modules), Set.of(), Map.of(), false);
    Node node = new Node(new Environment(settings, home.resolve("config")), plugins);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> close(node)));
    node.start();
    Thread.currentThread().join();
  }

  private static void close(Node node) {
    try {
      node.close();
    } catch (IOException e) {
      System.err.println("The node did not close in order: " + e);
    }
  }
}
